package poller

import (
	"context"
	"errors"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// OwnWrites knows what the bridge itself writes to the appliance, so that a version
// that shows nothing else can be told from those that somebody else made.
type OwnWrites interface {
	// Turn waits until nothing is being written to the appliance, and keeps it so
	// until end is called: what a page shows of a write is then known when the page
	// is read. The error is that of ctx.
	Turn(ctx context.Context) (end func(), err error)
	// Contended returns a channel that is closed once somebody waits for the turn.
	Contended() <-chan struct{}
	// IsOwnWrite reports whether all that happened to a detection since the version that
	// was delivered last, of that mod_time and Tracked, is what the bridge wrote.
	IsOwnWrite(seen transform.Detection, lastModTime int64, last []byte) bool
	// Delivered says that these versions are in the journal.
	Delivered(versions []transform.Detection)
}

// inTurn reads and commits a page while nothing is written to the appliance. It does so
// again, in another turn, as long as the page has to be asked for again.
func (d *Detections) inTurn(ctx context.Context, read func() error) error {
	return untilAnswered(ctx, func() error { return d.inOneTurn(ctx, read) })
}

// untilAnswered calls read again as long as its page has to be asked for again.
func untilAnswered(ctx context.Context, read func() error) error {
	for {
		err := read()
		again := errors.Is(err, errAskAgain) || errors.Is(err, appliance.ErrNoMemory)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// inOneTurn is inTurn without a second request for the page.
func (d *Detections) inOneTurn(ctx context.Context, read func() error) error {
	if d.o.OwnWrites == nil {
		return read()
	}
	// A request that waits for memory in the turn would keep tickets from being written
	// for as long as a sink that is down keeps pages from being committed.
	if err := d.client.Reserve(ctx, &d.page, d.limit.now); err != nil {
		return err
	}
	defer d.page.Release()
	end, err := d.o.OwnWrites.Turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	return read()
}

// errAskAgain says that a page has to be asked for with fewer rows.
var errAskAgain = errors.New("the page is asked for again, with fewer rows")

// errGaveWay says that a page was not committed, since the journal was full and
// somebody else wanted the turn. It has to be read again: it may have changed.
var errGaveWay = errors.New("the journal is full, and a ticket is written first")

// commitInTurn commits c. While the journal is full it waits, but not while somebody
// else wants the turn: then nothing is written, and the error is errGaveWay.
func (d *Detections) commitInTurn(ctx context.Context, c checkpoint.Commit) error {
	if d.o.OwnWrites == nil {
		return d.store.Commit(ctx, c)
	}
	c.NoWait = true
	err := d.store.Commit(ctx, c)
	if !errors.Is(err, checkpoint.ErrFull) {
		return err
	}
	waiting, stop := context.WithCancelCause(ctx)
	wanted, watched := d.o.OwnWrites.Contended(), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-wanted:
			stop(errGaveWay)
		case <-waiting.Done():
		}
	}()
	c.NoWait = false
	err = d.store.Commit(waiting, c)
	stop(nil)
	<-watched
	if err != nil && errors.Is(context.Cause(waiting), errGaveWay) && ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return errGaveWay
	}
	return err
}

// causeOf is what caused a version, given what is known of the detection. A first
// sight has no cause, and what a version that was given up changed is not known,
// unless it was delivered before.
func (d *Detections) causeOf(seen transform.Detection, last known) string {
	if d.o.OwnWrites != nil && len(last.tracked) > 0 && !last.dead && d.o.OwnWrites.IsOwnWrite(seen, last.modTime, last.tracked) {
		return transform.CausedByWriteback
	}
	// With the mod_time of the version before it, it would be another one.
	if last.dead || seen.ModTime != last.modTime {
		return d.causeOfRepeat(seen, last)
	}
	return ""
}

// causeOfRepeat is what caused a version that was delivered before, given what is known
// of the detection: what the bridge wrote stays its own however often it comes.
func (d *Detections) causeOfRepeat(seen transform.Detection, last known) string {
	if last.wrote(seen.ModTime, seen.Tracked) {
		return transform.CausedByWriteback
	}
	return ""
}
