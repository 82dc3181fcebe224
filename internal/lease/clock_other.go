//go:build !linux

package lease

import "time"

var start = time.Now()

// sinceStart returns the time since the process started.
func sinceStart() time.Duration { return time.Since(start) }
