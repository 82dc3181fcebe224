package lease_test

import (
	"testing"
	"time"

	"ndrbridge/internal/lease"
)

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
