package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// newHeartbeat returns the part that journals a periodic event, by which receivers can distinguish
// silence from a bridge that is gone. If interval is 0, it ends at once.
func (p *Pipeline) newHeartbeat(interval time.Duration) *part {
	return &part{tasks: []task{prompt(func(ctx context.Context) { p.sendHeartbeats(ctx, interval) })}}
}

// sendHeartbeats journals an event at each interval until ctx is done.
func (p *Pipeline) sendHeartbeats(ctx context.Context, interval time.Duration) {
	if interval == 0 {
		return
	}
	every(ctx, interval, func() {
		// An event that waits for space in the journal is dropped in favour of the
		// next, so that none is old when it is journalled.
		limited, cancel := context.WithTimeout(ctx, interval)
		now := time.Now()
		event, err := p.ownEvents().Heartbeat(p.options.Version, p.options.Started, now)
		if err == nil {
			err = journal(limited, p.store, event, now, true)
		}
		if err != nil && limited.Err() == nil {
			p.options.Log.Warn("failed to journal a heartbeat", "error", err)
		}
		cancel()
	})
}

// ownEvents returns the encoder of events that concern no appliance.
func (p *Pipeline) ownEvents() transform.Encoder {
	return transform.Encoder{Appliance: transform.Bridge}
}

// journal commits an event that concerns no appliance. If the journal is full, it
// waits; with wait false it uses its half of the reserve instead, and returns
// checkpoint.ErrFull once that is used up, too. It may be called concurrently.
func journal(ctx context.Context, store *checkpoint.Store, event transform.Event, now time.Time, wait bool) error {
	source := checkpoint.Source{Appliance: transform.Bridge, Stream: transform.StreamEvents}
	for {
		last, err := store.Position(ctx, source)
		if err != nil {
			return fmt.Errorf("read the time of the last event: %w", err)
		}
		err = store.Commit(ctx, checkpoint.Commit{
			Source: source, Expect: last,
			Position: fmt.Appendf(nil, `{"last":%d}`, now.UnixMilli()),
			Events:   []transform.Event{event},
			NoWait:   !wait,
		})
		if !errors.Is(err, checkpoint.ErrFenced) { // another event was committed meanwhile
			return err
		}
	}
}
