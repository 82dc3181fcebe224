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

// NoError ends the test if there is an error.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ErrorIs ends the test unless the error is, or wraps, another one.
func ErrorIs(t T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
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
