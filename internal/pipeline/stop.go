package pipeline

import (
	"context"
	"errors"
	"slices"
	"time"
)

// The grace after the deadline of a stop, in which work in progress is cut short.
const (
	// windDown is how long a part then has to commit completed work before it is
	// abandoned.
	windDown = 400 * time.Millisecond
	// closing is how long after windDown closing may take.
	closing = 400 * time.Millisecond
	// grace is when the process exits. It leaves some time after closing to report what
	// was abandoned.
	grace = windDown + closing + 200*time.Millisecond
)

// StopLimit returns how long a stop with this timeout may take, whatever ignores it. The
// process should then exit.
func StopLimit(timeout time.Duration) time.Duration { return timeout + grace }

// Deadline is the period in which a stop must finish. All times of a stop derive from
// it: its beginning, when sources are stopped; half, when sinks are; End, when work in
// progress is cut short; and the grace after it.
type Deadline struct {
	begun time.Time
	End   time.Time
}

// Within returns the deadline of a stop that begins now.
func Within(timeout time.Duration) Deadline {
	now := time.Now()
	return Deadline{begun: now, End: now.Add(timeout)}
}

// half returns the time at which the delivery phase begins, even if the source phase
// has not ended.
func (d Deadline) half() time.Time { return d.begun.Add(d.End.Sub(d.begun) / 2) }

// stopParts stops parts phase by phase. Work in progress at the deadline is cut short. It
// returns the parts that have not ended windDown later; they are abandoned. If ctx is
// done it returns early, with the parts that still run.
func stopParts(ctx context.Context, all []*runningPart, d Deadline) []*runningPart {
	each := func(at phase, do func(*runningPart)) {
		for _, p := range all {
			if p.phase == at {
				do(p)
			}
		}
	}
	each(sourcePhase, func(p *runningPart) { p.stop() })
	awaitParts(ctx, slices.DeleteFunc(slices.Clone(all), func(p *runningPart) bool { return p.phase != sourcePhase }), d.half())
	each(deliveryPhase, func(p *runningPart) { p.stop() })
	left := awaitParts(ctx, all, d.End)
	if ctx.Err() != nil {
		return left
	}
	for _, p := range left {
		p.cut()
	}
	return awaitParts(ctx, left, d.End.Add(windDown))
}

// awaitParts waits until all parts have ended, until the given time, or until ctx is done.
// It returns the parts that still run.
func awaitParts(ctx context.Context, all []*runningPart, until time.Time) []*runningPart {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for _, p := range all {
		select {
		case <-p.ended:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		break
	}
	return slices.DeleteFunc(slices.Clone(all), func(p *runningPart) bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
}

// partNames returns the sorted, distinct names of parts.
func partNames(all []*runningPart) []string {
	var found []string
	for _, p := range all {
		found = append(found, p.name)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Closer closes one item after another, after a stop. It abandons those that do not
// close in time, so that the process can exit.
type Closer struct {
	Left []string // names of the items that were abandoned
	Err  error    // the joined errors of the others

	until time.Time
}

// Closer returns a Closer that is patient until shortly after the deadline.
func (d Deadline) Closer() *Closer { return &Closer{until: d.End.Add(windDown + closing)} }

// Close closes the named item by calling f.
func (c *Closer) Close(name string, f func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(time.Until(c.until))
	defer timer.Stop()
	select {
	case failed := <-done:
		c.Err = errors.Join(c.Err, failed)
	case <-timer.C:
		c.Left = append(c.Left, name)
	}
}
