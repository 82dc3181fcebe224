package checkpoint_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain runs each property 25 times rather than 100, unless -rapid.checks is given: a run
// waits for the disk dozens of times.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
