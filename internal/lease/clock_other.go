//go:build !linux

package lease

import "time"

type systemClock struct {
	timers
	start time.Time
}

func newSystemClock() systemClock { return systemClock{start: time.Now()} }

func (c systemClock) Now() time.Duration { return time.Since(c.start) }
