//go:build unix

package sinktest

import (
	"syscall"
	"testing"
	"time"

	"ndrbridge/test/require"
)

// PerEvent benchmarks send, which sends the given number of events per call. It reports
// the CPU time of the process per event.
func PerEvent(b *testing.B, events int, send func() error) {
	require.NoError(b, send())
	before := cpu()
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, send())
	}
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N*events), "cpu-ns/event")
}

// cpu returns the CPU time that the process has used.
func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
