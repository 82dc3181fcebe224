package lease

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

type systemClock struct{ timers }

func newSystemClock() systemClock { return systemClock{} }

func (systemClock) Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprintf("read CLOCK_BOOTTIME: %v", err)) // every Linux that Go supports has it
	}
	return time.Duration(t.Nano())
}
