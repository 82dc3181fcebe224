package lease_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"
	"time"

	"ndrbridge/cluster/lease"
)

// scriptedClock stands still except when a test moves it.
type scriptedClock struct {
	mu     sync.Mutex
	now    time.Duration
	wall   time.Time
	timers []*scriptedTimer
}

type scriptedTimer struct {
	at time.Duration
	f  func()
}

func newScriptedClock() *scriptedClock {
	return &scriptedClock{now: time.Hour, wall: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
}

func (c *scriptedClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *scriptedClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

func (c *scriptedClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &scriptedTimer{c.now + d, f}
	c.timers = append(c.timers, t)
	return func() bool { return c.remove(t) }
}

func (c *scriptedClock) remove(t *scriptedTimer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.timers, t)
	if i >= 0 {
		c.timers = slices.Delete(c.timers, i, i+1)
	}
	return i >= 0
}

// advance lets d pass and calls what is due, at its time.
func (c *scriptedClock) advance(d time.Duration) {
	for end := c.Now() + d; ; {
		c.mu.Lock()
		var due *scriptedTimer
		if len(c.timers) > 0 {
			due = slices.MinFunc(c.timers, func(a, b *scriptedTimer) int { return cmp.Compare(a.at, b.at) })
		}
		c.mu.Unlock()
		if due == nil || due.at > end {
			c.stop(end - c.Now())
			return
		}
		c.stop(max(0, due.at-c.Now()))
		if c.remove(due) {
			due.f()
		}
	}
}

// stop lets d pass without calling anything, as if the process were stopped.
func (c *scriptedClock) stop(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	c.wall = c.wall.Add(d)
}

// jump sets the wall clock ahead.
func (c *scriptedClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// pending returns the number of timers.
func (c *scriptedClock) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

func TestTheSystemClockGoesOnAndCallsBack(t *testing.T) {
	t.Parallel()
	c := lease.System()
	before, wall := c.Now(), time.Now()
	called := make(chan struct{})
	c.AfterFunc(time.Millisecond, func() { close(called) })
	<-called
	if passed := c.Now() - before; passed < time.Millisecond {
		t.Errorf("%v passed until a call after 1ms", passed)
	}
	if now := c.Wall(); now.Before(wall) {
		t.Errorf("the wall clock shows %v after %v", now, wall)
	}
	if stop := c.AfterFunc(time.Hour, func() {}); !stop() {
		t.Error("a pending call is not stopped")
	}
}
