package lease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/internal/lease"
	"ndrbridge/test/assert"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/require"
)

const term = 8 * time.Second

func newLease() (*lease.Lease, *leasetest.Clock) { return leasetest.NewLease(term) }

func TestALeaseIsValidForATermFromItsLastRenewal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(l *lease.Lease, c *leasetest.Clock)
		left time.Duration
	}{
		{"just renewed", func(*lease.Lease, *leasetest.Clock) {}, term},
		{"later", func(_ *lease.Lease, c *leasetest.Clock) { c.Advance(3 * time.Second) }, term - 3*time.Second},
		{"after its term", func(_ *lease.Lease, c *leasetest.Clock) { c.Advance(term) }, 0},
		{"after the machine was suspended", func(_ *lease.Lease, c *leasetest.Clock) { c.Stop(term) }, 0},
		{"renewed as of an earlier moment", func(l *lease.Lease, c *leasetest.Clock) {
			begun := c.Now() + time.Second
			c.Advance(5 * time.Second)
			l.Renew(begun)
		}, term - 4*time.Second},
		{"renewed as of a moment before the last renewal", func(l *lease.Lease, c *leasetest.Clock) { l.Renew(c.Now() - time.Second) }, term},
		{"renewed as of a moment a term ago", func(l *lease.Lease, c *leasetest.Clock) {
			begun := c.Now()
			c.Advance(term + time.Second)
			l.Renew(begun)
		}, 0},
		{"renewed after it was over", func(l *lease.Lease, c *leasetest.Clock) {
			c.Advance(2 * term)
			l.Renew(c.Now())
		}, term},
		{"ended", func(l *lease.Lease, _ *leasetest.Clock) { l.End() }, 0},
		{"renewed after its end", func(l *lease.Lease, c *leasetest.Clock) {
			l.End()
			l.Renew(c.Now())
		}, 0},
		{"the wall clock jumps ahead by less than the time left", func(_ *lease.Lease, c *leasetest.Clock) { c.Jump(term - time.Second) }, time.Second},
		{"the wall clock jumps ahead by more than the time left", func(_ *lease.Lease, c *leasetest.Clock) {
			c.Advance(time.Second)
			c.Jump(term)
		}, 0},
		{"the wall clock is set back", func(_ *lease.Lease, c *leasetest.Clock) { c.Jump(-time.Hour) }, term},
		{"the wall clock jumps ahead between sending a record and its answer", func(l *lease.Lease, c *leasetest.Clock) {
			begun := c.Now()
			c.Jump(term)
			l.Renew(begun)
		}, 0},
		{"the wall clock jumped ahead before the last two renewals", func(l *lease.Lease, c *leasetest.Clock) {
			c.Jump(time.Hour)
			l.Renew(c.Now())
			l.Renew(c.Now())
		}, term},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, clock := newLease()
			c.do(l, clock)
			assert.Equal(t, l.Left(), c.left, "is left")
			err := l.Check()
			assert.True(t, (err == nil) == (c.left > 0) && (err == nil || errors.Is(err, lease.ErrExpired)), "Check returns", err, c.left, "left")
		})
	}
}

func TestALeaseIsOverUntilItIsRenewed(t *testing.T) {
	t.Parallel()
	l := lease.New(term, leasetest.NewClock())
	assert.True(t, l.Left() == 0 && l.Check() != nil, l.Left(), "is left")
}

// Whatever happens, a lease is valid at most for a term from the beginning of the last
// record, less the jump of the wall clock since then.
func TestALeaseNeverOutlivesItsTerm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := leasetest.NewClock()
		l := lease.New(term, c)
		until, ended := time.Duration(0), false
		ctx, release := l.Context(context.Background())
		defer func() { release() }()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			d := time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond
			switch rapid.IntRange(0, 20).Draw(t, "step") {
			case 0:
				l.End()
				ended = true
			case 1, 2, 3:
				c.Jump(d)
				until -= d // a jump seen before the answer counts, too
			case 4, 5, 6:
				c.Stop(d)
			case 7, 8:
				release()
				ctx, release = l.Context(context.Background())
			case 9, 10, 11, 12, 13, 14:
				begun := c.Now()
				c.Stop(d)
				l.Renew(begun)
				until = max(until, begun+term)
			default:
				c.Advance(d)
			}
			left := l.Left()
			bound := until - c.Now()
			require.True(t, (!ended || left <= 0) && left <= max(0, bound), left, "is left, the bound", bound)
			if err := ctx.Err(); err != nil && !errors.Is(context.Cause(ctx), lease.ErrExpired) {
				t.Fatalf("the context ended: %v", context.Cause(ctx))
			}
		}
		if c.Advance(2 * term); l.Left() != 0 || ctx.Err() == nil || c.Pending() > 0 {
			t.Fatalf("two terms after the last renewal %v is left, the context's error is %v, and %d timers are set", l.Left(), ctx.Err(), c.Pending())
		}
	})
}

func TestAContextEndsWithTheLease(t *testing.T) {
	t.Parallel()
	l, c := newLease()
	ctx, release := l.Context(t.Context())
	defer release()
	c.Advance(term - 1)
	l.Renew(c.Now() - time.Second)
	if c.Advance(term - time.Second - 1); ctx.Err() != nil {
		t.Fatalf("it ended although the lease was renewed: %v", context.Cause(ctx))
	}
	if c.Advance(1); !errors.Is(context.Cause(ctx), lease.ErrExpired) {
		t.Fatalf("it has not ended with the lease: %v", context.Cause(ctx))
	}
	l.Renew(c.Now())
	assert.Error(t, ctx.Err(), "a renewal revived it")
	again, release := l.Context(t.Context())
	defer release()
	if again.Err() != nil {
		t.Errorf("the lease is valid again, a new context is not: %v", context.Cause(again))
	}
	if l.End(); !errors.Is(context.Cause(again), lease.ErrExpired) {
		t.Errorf("End has not ended it: %v", context.Cause(again))
	}
}

func TestWhatEndsAContext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before func(c *leasetest.Clock)
		after  func(c *leasetest.Clock, release func())
		want   error
	}{
		{"a lease that was over", func(c *leasetest.Clock) { c.Stop(term) }, nil, lease.ErrExpired}, // no timer has run
		{"a jump of the wall clock, soon", nil, func(c *leasetest.Clock, _ func()) { c.Jump(term); c.Advance(term / 4) }, lease.ErrExpired},
		{"its release, not the lease", nil, func(c *leasetest.Clock, release func()) { release(); c.Advance(term) }, context.Canceled},
	} {
		l, clock := newLease()
		if c.before != nil {
			c.before(clock)
		}
		ctx, release := l.Context(t.Context())
		if c.after != nil {
			c.after(clock, release)
		}
		assert.Equal(t, context.Cause(ctx), c.want, c.name, "its cause")
		release()
	}
}

func TestAContextEndsInRealTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := bubbleClock{start}
		l := lease.New(term, c)
		l.Renew(c.Now())
		ctx, release := l.Context(t.Context())
		defer release()
		time.Sleep(term / 2)
		l.Renew(c.Now())
		<-ctx.Done()
		assert.Equal(t, time.Since(start), term*3/2, "it ended after")
	})
}

func TestDoMarksWhatFailedForWantOfALease(t *testing.T) {
	t.Parallel()
	failed := errors.New("connection reset by peer")
	for _, c := range []struct {
		name   string
		before func(l *lease.Lease, c *leasetest.Clock)
		during func(l *lease.Lease, c *leasetest.Clock)
		err    error // of the call
		called bool
		want   []error
	}{
		{name: "a call with a lease", called: true},
		{name: "a failure with a lease", err: failed, called: true, want: []error{failed}},
		{name: "a call without a lease", before: func(_ *lease.Lease, c *leasetest.Clock) { c.Stop(term) }, want: []error{lease.ErrExpired}},
		{name: "a failure after the lease has ended", during: func(_ *lease.Lease, c *leasetest.Clock) { c.Stop(term) }, err: failed, called: true, want: []error{failed, lease.ErrExpired}},
		{name: "a failure after the lease has ended and was renewed", during: func(l *lease.Lease, c *leasetest.Clock) {
			c.Advance(term)
			l.Renew(c.Now())
		}, err: failed, called: true, want: []error{failed, lease.ErrExpired}},
		{name: "a call that succeeds after the lease has ended", during: func(_ *lease.Lease, c *leasetest.Clock) { c.Advance(term) }, called: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, clock := newLease()
			if c.before != nil {
				c.before(l, clock)
			}
			called := false
			err := l.Do(t.Context(), func(ctx context.Context) error {
				called = true
				if c.during != nil {
					c.during(l, clock)
				}
				return c.err
			})
			assert.True(t, called == c.called && (err == nil) == (len(c.want) == 0), "it was called", called, "it returns", err)
			for _, want := range []error{failed, lease.ErrExpired} {
				assert.Equal(t, errors.Is(err, want), slices.Contains(c.want, want), "it returns", err, c.want)
			}
		})
	}
}

// bubbleClock is the clock of a synctest bubble.
type bubbleClock struct{ start time.Time }

func (c bubbleClock) Now() time.Duration { return time.Since(c.start) }
func (c bubbleClock) Wall() time.Time    { return time.Now() }
func (c bubbleClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

func TestANilLeaseNeverEnds(t *testing.T) {
	t.Parallel()
	var l *lease.Lease
	assert.True(t, l.Left() > 100*365*24*time.Hour && l.Check() == nil, l.Left(), "is left")
	ctx, release := l.Context(t.Context())
	if release(); ctx != t.Context() {
		t.Error("its context is another one")
	}
	assert.Equal(t, l.Do(t.Context(), func(context.Context) error { return lease.ErrExpired }), lease.ErrExpired, "Do returns")
	assert.True(t, l.Conn(nil) == nil, "its connection is another one")
}
