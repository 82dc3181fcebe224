package process_test

import (
	"os"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/process"
	"ndrbridge/test/require"
)

func TestMemoryOfAProcess(t *testing.T) {
	anon, peak := process.Memory(os.Getpid())
	assert.True(t, anon > 0 && peak >= anon/2, "own: anon", anon, "peak", peak)
	anon, peak = process.Memory(1 << 30)
	assert.True(t, anon == 0 && peak == 0, "of a process that does not exist: anon", anon, "peak", peak)
}

func TestCPUOfAProcess(t *testing.T) {
	before := process.CPU(os.Getpid())
	for deadline := time.Now().Add(10 * time.Second); process.CPU(os.Getpid()) <= before; {
		require.True(t, time.Now().Before(deadline), "own", before, "for ten seconds")
	}
	assert.Equal(t, process.CPU(1<<30), 0, "of a process that does not exist")
}
