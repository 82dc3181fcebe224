package ticketopener_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain runs each property 30 times rather than 100, unless -rapid.checks is given, as make
// torture does: a run asks a ticket system and waits for the disk dozens of times.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "30"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
