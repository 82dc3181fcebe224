package main

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage less often: much passes through the commands and little is live. They
// run with GOGC in their environment, because the limit of a bridge is for a process of its own.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
