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

// Stop is a stop within a deadline. All its times derive from its beginning, when sources are
// stopped: half, when sinks are; end, when work in progress is cut short; and the grace after it.
type Stop struct {
	Timeout time.Duration
	Left    []string // names of abandoned parts
	Err     error    // the joined errors of closing

	begun time.Time
}

// NewStop returns a stop that begins now.
func NewStop(timeout time.Duration) *Stop { return &Stop{Timeout: timeout, begun: time.Now()} }

// half returns the time at which the delivery phase begins, even if the source phase
// has not ended.
func (s *Stop) half() time.Time { return s.begun.Add(s.Timeout / 2) }

func (s *Stop) end() time.Time { return s.begun.Add(s.Timeout) }

// Close closes the named item by calling f, and abandons it if that takes until shortly after the
// end, so that the process can exit.
func (s *Stop) Close(name string, f func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case failed := <-done:
		s.Err = errors.Join(s.Err, failed)
	case <-time.After(time.Until(s.end().Add(windDown + closing))):
		s.Left = append(s.Left, name)
	}
}

// stopParts stops parts phase by phase. Work in progress at the deadline is cut short. It
// returns the parts that have not ended windDown later; they are abandoned. If ctx is
// done it returns early, with the parts that still run.
func stopParts(ctx context.Context, all []*part, s *Stop) []*part {
	each := func(at phase, do func(*part)) {
		for _, p := range all {
			if p.phase == at {
				do(p)
			}
		}
	}
	each(sourcePhase, func(p *part) { p.stop() })
	awaitParts(ctx, slices.DeleteFunc(slices.Clone(all), func(p *part) bool { return p.phase != sourcePhase }), s.half())
	each(deliveryPhase, func(p *part) { p.stop() })
	left := awaitParts(ctx, all, s.end())
	if ctx.Err() != nil {
		return left
	}
	for _, p := range left {
		p.cut()
	}
	return awaitParts(ctx, left, s.end().Add(windDown))
}

// awaitParts waits until all parts have ended, until the given time, or until ctx is done.
// It returns the parts that still run.
func awaitParts(ctx context.Context, all []*part, until time.Time) []*part {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for _, p := range all {
		select {
		case <-p.ended:
		case <-ctx.Done():
		}
	}
	return slices.DeleteFunc(slices.Clone(all), (*part).hasEnded)
}

// sortedNames returns the sorted, distinct names of parts.
func sortedNames(all []*part) []string {
	return slices.Compact(slices.Sorted(slices.Values(names(all))))
}
