package lease

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// sinceStart returns the time since the machine started.
func sinceStart() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		// cannot happen: Linux has had CLOCK_BOOTTIME since 2.6.39, and Go requires 3.2
		panic(fmt.Sprintf("read CLOCK_BOOTTIME: %v", err))
	}
	return time.Duration(t.Nano())
}
