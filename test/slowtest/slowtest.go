// Package slowtest marks the tests that kill, wait or repeat. make test runs without them, with
// -short; properties of rapid are checked less often there by themselves.
package slowtest

import (
	"flag"
	"strconv"
	"testing"
)

// Skip skips a test in make test, which passes -short.
func Skip(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow: make test ALL=1 and .ci/run run it")
	}
}

// Times returns how often a test repeats something: n times, or a fifth of that under -short.
func Times(n int) int {
	if testing.Short() {
		return max(1, n/5)
	}
	return n
}

// Checks lets rapid check a property of t n times, not 100, unless -rapid.checks is given. t must not
// run beside other properties.
func Checks(t testing.TB, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() != checks.DefValue {
		return
	}
	if err := checks.Value.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) }) // it is valid
}
