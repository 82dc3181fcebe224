package process_test

import (
	"os"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/process"
)

func TestMemoryOfAProcess(t *testing.T) {
	if anon, peak := process.Memory(os.Getpid()); anon <= 0 || peak < anon/2 {
		t.Errorf("own: anon %d, peak %d", anon, peak)
	}
	if anon, peak := process.Memory(1 << 30); anon != 0 || peak != 0 {
		t.Errorf("of a process that does not exist: anon %d, peak %d", anon, peak)
	}
}

func TestCPUOfAProcess(t *testing.T) {
	before := process.CPU(os.Getpid())
	for deadline := time.Now().Add(10 * time.Second); process.CPU(os.Getpid()) <= before; {
		if time.Now().After(deadline) {
			t.Fatalf("own: %v for ten seconds", before)
		}
	}
	assert.Equal(t, process.CPU(1<<30), 0, "of a process that does not exist")
}
