package poller

import (
	"context"
	"errors"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// OwnWrites knows what the bridge itself writes to the appliance, so that a version that
// contains nothing else can be distinguished from changes made by others.
type OwnWrites interface {
	// Turn waits until nothing is being written to the appliance, and prevents writes until
	// end is called: what a page shows of a write is then known when the page is read. It
	// returns ctx's error if ctx is done.
	Turn(ctx context.Context) (end func(), err error)
	// Contended returns a channel that is closed when another goroutine waits for the turn.
	Contended() <-chan struct{}
	// IsOwnWrite reports whether everything that changed in a detection since the last
	// delivered version, with that mod_time and Tracked, was written by the bridge.
	IsOwnWrite(seen transform.Detection, lastModTime int64, last []byte) bool
	// Delivered reports to OwnWrites that these versions are in the journal.
	Delivered(versions []transform.Detection)
}

// inTurn reads and commits a page while nothing is written to the appliance. While the
// page has to be requested again, it does so in another turn.
func (d *Detections) inTurn(ctx context.Context, read func() error) error {
	return untilAnswered(ctx, func() error { return d.inOneTurn(ctx, read) })
}

// untilAnswered calls read while its page has to be requested again.
func untilAnswered(ctx context.Context, read func() error) error {
	for {
		err := read()
		again := errors.Is(err, errAskAgain) || errors.Is(err, appliance.ErrNoMemory)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// inOneTurn is inTurn without requesting the page again.
func (d *Detections) inOneTurn(ctx context.Context, read func() error) error {
	if d.o.OwnWrites == nil {
		return read()
	}
	// A request that waits for memory during the turn would keep tickets from being
	// written as long as a sink that is down keeps pages from being committed.
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

// errAskAgain means that a page has to be requested again, with fewer rows.
var errAskAgain = errors.New("the page has to be requested again, with fewer rows")

// errGaveWay means that a page was not committed, because the journal was full and another
// goroutine waited for the turn. The page has to be read again: it may have changed.
var errGaveWay = errors.New("the journal is full, and a ticket waits to be written")

// commitInTurn commits c. While the journal is full it waits, unless another goroutine
// waits for the turn: then nothing is written, and it returns errGaveWay.
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
	contended, watched := d.o.OwnWrites.Contended(), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-contended:
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

// causeOf returns the cause of a version, given what is known of the detection. A
// detection seen for the first time has none; what changed in a version that was given up
// is not known, unless it was delivered before.
func (d *Detections) causeOf(seen transform.Detection, last known) string {
	if d.o.OwnWrites != nil && len(last.tracked) > 0 && !last.dead && d.o.OwnWrites.IsOwnWrite(seen, last.modTime, last.tracked) {
		return transform.CausedByWriteback
	}
	// With the mod_time of the last version it is a different one, not a repeat.
	if last.dead || seen.ModTime != last.modTime {
		return d.causeOfRepeat(seen, last)
	}
	return ""
}

// causeOfRepeat returns the cause of a version that was delivered before, given what is
// known of the detection: an own write stays one however often it is shown.
func (d *Detections) causeOfRepeat(seen transform.Detection, last known) string {
	if last.wrote(seen.ModTime, seen.Tracked) {
		return transform.CausedByWriteback
	}
	return ""
}
