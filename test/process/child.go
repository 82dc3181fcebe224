package process

import (
	"os"
	"os/exec"
	"testing"
)

// InChild runs the calling test in a child process with additional flags, and fails the test
// if it fails there. It reports whether this process is the child; the parent should return.
// It is for tests that change the whole process, such as its resource limits, which would
// also affect the log that go test keeps of the files that a test opens.
func InChild(t *testing.T, flags ...string) bool {
	t.Helper()
	const variable = "NDRBRIDGE_TEST_CHILD"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	child := exec.CommandContext(t.Context(), os.Args[0], append(flags, "-test.run=^"+t.Name()+"$")...)
	child.Env = append(os.Environ(), variable+"="+t.Name(), "GORACE=atexit_sleep_ms=0")
	if output, err := child.CombinedOutput(); err != nil {
		t.Fatalf("in a child process: %v\n%s", err, output)
	}
	return false
}
