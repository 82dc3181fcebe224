package cluster

import (
	"testing"
	"testing/synctest"
	"time"
)

const testTerm = 6 * time.Second

// scaledClock is a clock that runs rate times as fast as the time of the test. Its wall
// clock runs with it.
type scaledClock struct {
	start time.Time
	rate  float64
}

func newScaledClock(rate float64) scaledClock { return scaledClock{start: time.Now(), rate: rate} }

func (c scaledClock) Now() time.Duration {
	return time.Hour + time.Duration(float64(time.Since(c.start))*c.rate)
}

func (c scaledClock) Wall() time.Time { return c.start.Add(c.Now()) }

func (c scaledClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(time.Duration(float64(d)/c.rate)+1, f).Stop
}

// bubble runs a test beside others, in a bubble of its own.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}
