package lease

import "time"

// Clock is the time of a machine. Its methods are safe for concurrent use. All leases of
// a process, and whoever renews them, share one.
type Clock interface {
	// Now is the time since an arbitrary moment in the past. It never goes back and is
	// never set. It goes on while the machine is suspended.
	Now() time.Duration
	// Wall is the time of day, which may be set.
	Wall() time.Time
	// AfterFunc calls f in a goroutine of its own after d. stop prevents the call and
	// reports whether it did. Unlike Now, it may stand still during a suspension.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// System returns the clock of this machine. On systems other than Linux its Now stands
// still while the machine is suspended, of which only Wall gives notice.
func System() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Duration { return sinceStart() }

func (systemClock) Wall() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}
