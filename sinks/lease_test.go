package sinks_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

const term = 6 * time.Second

// cut is a target whose Send does not return before its context is done.
type cut struct {
	*target
	err func(events int) error // of a Send that was cut short
}

func (s cut) Send(ctx context.Context, events []transform.Event) error {
	select {
	case <-s.hold:
		return s.target.Send(ctx, events)
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	return s.err(len(events))
}

// A lease that ends again and again delays events and does nothing else, whatever a sink
// reports of a Send that was cut short.
func TestALeaseThatEndsCountsAgainstNoEvent(t *testing.T) {
	each := func(err error) func(int) error {
		return func(n int) error { return slices.Repeat(failure.EventErrors{err}, n) }
	}
	for name, err := range map[string]func(int) error{
		"a failure of its own":           func(int) error { return errors.New("connection reset by peer") },
		"a failure of each event":        each(errors.New("connection reset by peer")),
		"events that were not tried":     each(failure.ErrNotTried),
		"a failure that halts":           func(int) error { return failure.Errorf(failure.Halted, "login failed") },
		"a failure of each that halts":   each(failure.Errorf(failure.Halted, "login failed")),
		"a failure of each that waits":   each(failure.Errorf(failure.Throttled, "429")),
		"a rejection of the whole batch": func(int) error { return failure.Errorf(failure.Rejected, "400") },
	} {
		bubble(t, name, func(t *testing.T) {
			l, clock := leasetest.NewLease(term)
			s := &target{answer: acceptAll, hold: make(chan struct{})}
			f := newFixtureWith(t, 20, s, func(o *sinks.Options) {
				o.Lease, o.MaxAttempts = l, 2
				o.Open = func() (sinks.Sink, error) {
					_, _ = s.open()
					return cut{s, err}, nil
				}
			})
			stop := f.start()
			defer stop()
			const times = 50
			for range times {
				pass(time.Second)
				clock.Advance(term)
				pass(time.Minute)
				now := f.runner.Status()
				require.True(t, now.State == sinks.StateRetrying && now.Error == lease.ErrExpired.Error(), "without a lease it", now.State, now.Error)
				l.Renew(clock.Now())
			}
			pass(time.Second)
			assert.Equal(t, s.attempts, times, "sends")
			close(s.hold)
			pass(time.Second)
			assert.True(t, slices.Equal(s.accepted, numbers(1, 20)) && s.sizes[0] == 8, "with a lease it delivered", s.accepted, "in batches of", s.sizes)
			if dead := f.dead(t); len(dead) > 0 || s.opened != 1 || f.cursor(t) != 20 {
				t.Errorf("%d sinks were opened, the cursor is at %d, and the dead letters are %v", s.opened, f.cursor(t), dead)
			}
			f.expectState(t, sinks.StateRunning)
			clock.Advance(term)
			now := f.runner.Status()
			assert.True(t, now.State == sinks.StateRetrying && now.Error == lease.ErrExpired.Error(), "without a lease and events it", now.State, now.Error)
		})
	}
}

func TestNothingIsSentBeforeThereIsALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := leasetest.NewClock()
		l := lease.New(term, clock)
		s := &target{answer: acceptAll}
		f := newFixtureWith(t, 20, s, func(o *sinks.Options) { o.Lease = l })
		stop := f.start()
		defer stop()
		pass(time.Hour)
		require.True(t, s.attempts == 0, s.attempts, "sends without a lease")
		l.Renew(clock.Now())
		time.Sleep(time.Second) // the wait does not grow
		synctest.Wait()
		assert.EqualSlices(t, s.accepted, numbers(1, 20), "with a lease it delivered")
	})
}

func TestWhatWasAcknowledgedBeforeTheLeaseEndedIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, clock := leasetest.NewLease(term)
		s := &target{answer: acceptAll, hold: make(chan struct{})}
		f := newFixtureWith(t, 20, s, func(o *sinks.Options) {
			o.Lease, o.MaxAttempts = l, 1
			o.Open = func() (sinks.Sink, error) { return divided{s}, nil }
		})
		stop := f.start()
		defer stop()
		pass(time.Second)
		clock.Advance(term)
		pass(time.Second)
		f.expectDead(t, nil)
		f.expectCursor(t, 1)
	})
}

// lapsing lets the lease end during every Send whose number interrupt selects, and renews
// it after a second.
type lapsing struct {
	*target
	l         *lease.Lease
	clock     *leasetest.Clock
	interrupt func(send int) bool
	sends     int
}

func (s *lapsing) Send(ctx context.Context, events []transform.Event) error {
	if s.sends++; !s.interrupt(s.sends) {
		return s.target.Send(ctx, events)
	}
	s.clock.Advance(term)
	time.AfterFunc(time.Second, func() { s.l.Renew(s.clock.Now()) })
	return errors.New("connection reset by peer")
}

func newLapsing(t *testing.T, events int, interrupt func(send int) bool, answer func(int, []string) error, change func(*sinks.Options)) *fixture {
	l, clock := leasetest.NewLease(term)
	s := &target{answer: answer}
	sink := &lapsing{target: s, l: l, clock: clock, interrupt: interrupt}
	return newFixtureWith(t, events, s, func(o *sinks.Options) {
		o.Lease, o.Open = l, func() (sinks.Sink, error) { return sink, nil }
		if change != nil {
			change(o)
		}
	})
}

func TestAPoisonEventIsGivenUpAlthoughTheLeaseEndsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		f := newLapsing(t, 1000, func(send int) bool { return send%17 == 0 }, func(_ int, ids []string) error {
			if !slices.Contains(ids, "5") {
				return nil
			}
			if len(ids) == 1 {
				failures++
			}
			return errors.New("500 internal server error")
		}, nil)
		stop := f.start()
		defer stop()
		for i := range 60 {
			time.Sleep(5 * time.Minute)
			f.append(t, 1001+i, 1001+i)
		}
		pass(time.Minute)
		dead := f.dead(t)
		assert.True(t, slices.Equal(dead, []string{"5"}) && failures >= 20, failures, "failures alone, the dead letters are", dead)
		f.expectInAnyOrder(t, numbers(1, 1060, "5"))
	})
}

func TestASinkThatRejectsEverythingIsStillProbedAfterALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fixed atomic.Bool
		f := newLapsing(t, 100, func(send int) bool { return send%3 == 0 }, until(&fixed, failure.Errorf(failure.Rejected, "403 for all")), func(o *sinks.Options) { o.Batch.MaxEvents = 25 })
		stop := f.start()
		defer stop()
		pass(time.Hour)
		if now := f.runner.Status(); now.State == sinks.StateRunning || len(f.dead(t)) > 0 {
			t.Errorf("it is %s: %s, and the dead letters are %v", now.State, now.Error, f.dead(t))
		}
		fixed.Store(true)
		pass(time.Hour)
		f.expectInAnyOrder(t, numbers(1, 100))
		f.expectDead(t, nil)
	})
}
