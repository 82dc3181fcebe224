package replicatedtest

import "time"

// Clock is a machine's clock whose rate differs from that of the others.
type Clock struct {
	start time.Time
	rate  float64
}

// NewClock returns a clock that is rate times as fast as time.Now.
func NewClock(rate float64) *Clock { return &Clock{time.Now(), rate} }

// Now returns the time since NewClock, by this clock.
func (c *Clock) Now() time.Duration { return time.Duration(float64(time.Since(c.start)) * c.rate) }

// Wall returns the time of day, by this clock.
func (c *Clock) Wall() time.Time { return c.start.Add(c.Now()) }

// AfterFunc calls f in a goroutine of its own after d, by this clock. stop prevents it.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(time.Duration(float64(d)/c.rate), f).Stop
}
