// Package require ends tests that cannot go on.
package require

import (
	"errors"
	"fmt"
)

// T is a test, or a run of a property.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// True ends the test unless a condition holds. Its last arguments say which, and are printed as by fmt.Sprintln.
func True(t T, condition bool, about ...any) {
	t.Helper()
	if !condition {
		t.Fatalf("%sgot  false\nwant true", fmt.Sprintln(about...))
	}
}

// NoError ends the test if there is an error. Its last arguments say what failed.
func NoError(t T, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(append(about, err)...)
	}
}

// ErrorIs ends the test unless the error is, or wraps, another one. Its last arguments say what returned it.
func ErrorIs(t T, err, want error, about ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%serror %v, want %v", fmt.Sprintln(about...), err, want)
	}
}

// Equal ends the test if values differ. Its last arguments say what was compared, and are printed as by fmt.Sprintln.
func Equal[V comparable](t T, got, want V, about ...any) {
	t.Helper()
	if got != want {
		t.Fatalf("%sgot  %+v\nwant %+v", fmt.Sprintln(about...), got, want)
	}
}

// Value returns a function that returns the value, or ends the test if there is an error, so that a call which may
// fail is written in one expression: content := require.Value(os.ReadFile(path))(t).
func Value[V any](value V, err error) func(t T) V {
	return func(t T) V {
		t.Helper()
		NoError(t, err)
		return value
	}
}
