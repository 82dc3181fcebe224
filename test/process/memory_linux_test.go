package process_test

import (
	"os"
	"testing"

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
