package sinks

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// Lag is a sink's policy for falling behind. The zero Lag never skips.
type Lag struct {
	// Skip allows skipping the oldest of the events that are not committed.
	Skip     bool
	MaxAge   time.Duration // of an event; 0: no limit
	MaxBytes int64         // of all uncommitted events; 0: no limit
	// Events encodes the event that reports skipped events.
	Events transform.Encoder
}

const (
	// lagCheckInterval is the minimum time between two checks of the lag.
	lagCheckInterval = 5 * time.Second
	// skipInterval is the minimum time between two skips, because each is reported
	// by an event. It does not apply if the excess is at least MaxBytes/skipFraction.
	skipInterval = time.Minute
	skipFraction = 16
)

// lagPolicy applies a Lag to a sink's cursor.
type lagPolicy struct {
	journal Journal
	sink    string
	Lag
	checkedAt, skippedAt time.Time
}

// apply skips the events that exceed the limits and reports whether there were
// any. Before it skips, it calls commitCompleted, so that completed events are
// committed rather than skipped. It does nothing within lagCheckInterval of the
// last check.
func (p *lagPolicy) apply(ctx context.Context, now time.Time, commitCompleted func() error) (bool, error) {
	if !p.Skip || now.Sub(p.checkedAt) < lagCheckInterval {
		return false, nil
	}
	p.checkedAt = now
	budget := checkpoint.Budget{MaxBytes: p.MaxBytes}
	if p.MaxAge > 0 {
		budget.Since = now.Add(-p.MaxAge)
	}
	over, err := p.journal.Over(ctx, p.sink, budget)
	if err == nil && over.Cursor > over.Expect {
		if err = commitCompleted(); err == nil {
			over, err = p.journal.Over(ctx, p.sink, budget)
		}
	}
	if err != nil || over.Cursor == over.Expect {
		return false, err
	}
	if now.Sub(p.skippedAt) < skipInterval && (p.MaxBytes == 0 || over.Bytes < p.MaxBytes/skipFraction) {
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
		return false, fmt.Errorf("encode the event that reports skipped events: %w", err)
	}
	if err := p.journal.Skip(ctx, checkpoint.Skip{Sink: p.sink, Expect: over.Expect, Cursor: over.Cursor, Event: event}); err != nil {
		return false, err
	}
	p.skippedAt = now
	return true, nil
}
