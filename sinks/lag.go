package sinks

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// Lag is what a sink does that is too far behind. The zero Lag lets it be behind
// for ever.
type Lag struct {
	// Skip lets it skip the oldest of the events that it has yet to settle.
	Skip     bool
	MaxAge   time.Duration // of an event; 0: any
	MaxBytes int64         // of all of them; 0: any
	// Events makes the event that tells what was skipped.
	Events transform.Encoder
}

const (
	// lagEvery is how often the lag is looked at.
	lagEvery = 5 * time.Second
	// skipEvery is the least time between two skips: each is told by an event. A
	// lag that has grown by a part of MaxBytes does not wait for it.
	skipEvery = time.Minute
	skipPart  = 16
)

// lagPolicy applies a Lag to a sink's cursor.
type lagPolicy struct {
	journal checkpoint.Skips
	sink    string
	Lag
	looked, skipped time.Time
}

// apply skips what is too much, and reports whether there was something. Before
// that, settle settles what of it is done.
func (p *lagPolicy) apply(ctx context.Context, now time.Time, commit func() error) (bool, error) {
	if !p.Skip || now.Sub(p.looked) < lagEvery {
		return false, nil
	}
	p.looked = now
	budget := checkpoint.Budget{MaxBytes: p.MaxBytes}
	if p.MaxAge > 0 {
		budget.Since = now.Add(-p.MaxAge)
	}
	over, err := p.journal.Over(ctx, p.sink, budget)
	if err == nil && over.Cursor > over.Expect {
		if err = commit(); err == nil {
			over, err = p.journal.Over(ctx, p.sink, budget)
		}
	}
	if err != nil || over.Cursor == over.Expect {
		return false, err
	}
	if now.Sub(p.skipped) < skipEvery && (p.MaxBytes == 0 || over.Bytes < p.MaxBytes/skipPart) {
		return false, nil
	}
	reason := fmt.Sprintf("more than lag.max_bytes (%d) waited to be delivered", p.MaxBytes)
	if over.Oldest.Before(budget.Since) {
		reason = fmt.Sprintf("older than lag.max_age (%s)", p.MaxAge)
	}
	event, err := p.Events.SinkSkipped(transform.Skipped{
		Sink: p.sink, First: over.Expect + 1, Last: over.Cursor,
		Events: over.Events, Bytes: over.Bytes, Oldest: over.Oldest.UTC(), Newest: over.Newest.UTC(), Reason: reason,
	}, now)
	if err != nil {
		return false, fmt.Errorf("tell what is skipped: %w", err)
	}
	if err := p.journal.Skip(ctx, checkpoint.Skip{Sink: p.sink, Expect: over.Expect, Cursor: over.Cursor, Event: event}); err != nil {
		return false, err
	}
	p.skipped = now
	return true, nil
}
