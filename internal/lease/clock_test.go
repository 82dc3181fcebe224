package lease_test

import (
	"testing"
	"time"

	"ndrbridge/internal/lease"
	"ndrbridge/test/assert"
)

func TestTheSystemClockGoesOnAndCallsBack(t *testing.T) {
	t.Parallel()
	c := lease.System()
	before, wall := c.Now(), time.Now()
	called := make(chan struct{})
	c.AfterFunc(time.Millisecond, func() { close(called) })
	<-called
	passed := c.Now() - before
	assert.True(t, passed >= time.Millisecond, passed, "passed until a call after 1ms")
	now := c.Wall()
	assert.False(t, now.Before(wall), "the wall clock shows", now, wall)
	stop := c.AfterFunc(time.Hour, func() {})
	assert.True(t, stop(), "a pending call is not stopped")
}
