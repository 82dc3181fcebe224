// Package leasetest provides leases whose time a test controls.
package leasetest

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"ndrbridge/internal/lease"
)

// Clock is a lease.Clock that stands still except when a test moves it.
type Clock struct {
	mu     sync.Mutex
	now    time.Duration
	wall   time.Time
	timers []*timer
}

type timer struct {
	at time.Duration
	f  func()
}

// NewClock returns a Clock.
func NewClock() *Clock {
	return &Clock{now: time.Hour, wall: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
}

// NewLease returns a lease that was renewed just now, and its clock.
func NewLease(term time.Duration) (*lease.Lease, *Clock) {
	c := NewClock()
	l := lease.New(term, c)
	l.Renew(c.Now())
	return l, c
}

// Now implements lease.Clock.
func (c *Clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Wall implements lease.Clock.
func (c *Clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// AfterFunc implements lease.Clock.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{c.now + d, f}
	c.timers = append(c.timers, t)
	return func() bool { return c.remove(t) }
}

func (c *Clock) remove(t *timer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.timers, t)
	if i >= 0 {
		c.timers = slices.Delete(c.timers, i, i+1)
	}
	return i >= 0
}

// Advance lets d pass and calls what is due, at its time, in the calling goroutine.
func (c *Clock) Advance(d time.Duration) {
	for end := c.Now() + d; ; {
		c.mu.Lock()
		var due *timer
		if len(c.timers) > 0 {
			due = slices.MinFunc(c.timers, func(a, b *timer) int { return cmp.Compare(a.at, b.at) })
		}
		c.mu.Unlock()
		if due == nil || due.at > end {
			c.Stop(end - c.Now())
			return
		}
		c.Stop(max(0, due.at-c.Now()))
		if c.remove(due) {
			due.f()
		}
	}
}

// Stop lets d pass without calling anything, as if the process were stopped.
func (c *Clock) Stop(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	c.wall = c.wall.Add(d)
}

// Jump sets the wall clock ahead.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// Pending returns the number of timers.
func (c *Clock) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}
