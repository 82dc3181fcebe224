package poller

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/transform"
)

// listing is a source that compares all objects that an appliance lists with those that it
// remembers. It commits the events about what changed together with the new memory. What exists at
// the first contact gives no events, unless it is announced.
type listing struct {
	stream
	memory FollowUpStore
	now    func() time.Time

	fetch   func(ctx context.Context, page *appliance.Page) error
	compare func(ctx context.Context, s snapshot) (listingChanges, error)
	// announce means that what exists at the first contact gives events, too.
	announce bool

	position listingPosition
	// emptied is set if the last answer was empty although the appliance listed several objects
	// before. The next one decides whether they are gone.
	emptied bool
}

// maxListed bounds how many objects are remembered. Their size is bounded by that of an answer.
const maxListed = 10_000

// clockJitter is how far the time of an answer may be behind that of an earlier one although the
// clock was not set back: an appliance may have several nodes, and a wrong Date is replaced by an
// estimate.
const clockJitter = 10 * time.Second

// listingPosition is the position of a listing. The times are the appliance's own, in milliseconds
// since the epoch.
type listingPosition struct {
	Contact int64 `json:"contact"` // when the appliance was first asked
	Seen    int64 `json:"seen"`    // when the appliance listed what is remembered, never decreasing
}

// snapshot is what an appliance lists, and what is remembered.
type snapshot struct {
	objects  []appliance.Object
	at       time.Time // when the appliance answered, by its clock
	known    map[string][]byte
	seen     time.Time // listingPosition.Seen; zero at the first contact
	recorded time.Time // when the bridge received them
}

// listingChanges are the events about a snapshot, and what to remember of it from now on.
type listingChanges struct {
	events []transform.Event
	memory []checkpoint.Entry
}

// The At of remembered entries, by which a commit forgets those that are gone.
const (
	atGone = iota
	atListed
)

func (c *listingChanges) remember(key string, value []byte) {
	c.memory = append(c.memory, checkpoint.Entry{Key: key, Value: value, At: atListed})
}

func (c *listingChanges) forget(key string) {
	c.memory = append(c.memory, checkpoint.Entry{Key: key, Value: []byte(key), At: atGone})
}

func newListing(store FollowUpStore, name string, o StreamOptions) listing {
	return listing{stream: newStream(store, name, o), memory: store, now: o.Now}
}

// Poll implements Source.
func (l *listing) Poll(ctx context.Context) (Next, error) { return l.run(ctx, l.load, l.poll) }

// load takes over the committed position.
func (l *listing) load(context.Context) (err error) {
	l.position = listingPosition{}
	if l.committed != nil {
		l.position, err = parsePosition[listingPosition](l.committed)
	}
	return err
}

func (l *listing) poll(ctx context.Context) (Next, error) {
	first := l.committed == nil
	entries, err := l.memory.Remembered(ctx, l.source, "", maxListed)
	if err != nil {
		return Idle, fmt.Errorf("recall what %s listed: %w", l.source, err)
	}
	s := snapshot{known: make(map[string][]byte, len(entries))}
	for _, e := range entries {
		s.known[e.Key] = e.Value
	}
	if !first {
		s.seen = time.UnixMilli(l.position.Seen)
	}
	var page appliance.Page
	defer page.Release()
	emptied := l.emptied
	l.emptied = false
	if err := l.fetch(ctx, &page); err != nil {
		return Idle, err
	}
	if len(page.Objects) == 0 && len(s.known) > 1 && !emptied {
		l.emptied = true
		l.log.Warn("the appliance lists nothing any more; the next poll decides whether that is so", "before", len(s.known))
		l.progress.caughtUp(l.position.Seen)
		return Idle, nil
	}
	s.objects, s.at, s.recorded = page.Objects, page.Date, l.now()
	if behind := s.seen.Sub(s.at); behind > 0 && behind < clockJitter {
		s.at = s.seen // what has just ended must not begin again
	}
	c, err := l.compare(ctx, s)
	if err != nil {
		return Idle, fmt.Errorf("read what the appliance lists: %w", err)
	}
	if first {
		l.position.Contact = s.at.UnixMilli()
	}
	if first && !l.announce {
		c.events = nil
		l.log.Info("the first contact: what the appliance lists now gives no events", "remembered", len(c.memory))
	}
	if first || len(c.events) > 0 || len(c.memory) > 0 {
		l.position.Seen = max(l.position.Seen, s.at.UnixMilli())
		commit := checkpoint.Commit{Events: c.events, Remember: c.memory, ForgetBefore: atListed}
		if err := l.write(ctx, commit, encodePosition(l.position)); err != nil {
			return Idle, err
		}
	}
	l.progress.caughtUp(s.at.UnixMilli())
	return Idle, nil
}
