// Package slowtest marks the tests that kill, wait or repeat. make test runs without them, with
// -short; properties of rapid are checked less often there by themselves.
package slowtest

import "testing"

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
