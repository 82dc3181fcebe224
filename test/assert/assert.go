// Package assert reports what is wrong in a test, and lets the test go on. Each function returns whether all is well.
// Its last arguments say what was compared, and are printed as by fmt.Sprintln.
package assert

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// T is a test, or a run of a property.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Equal reports values that differ.
func Equal[V comparable](t T, got, want V, about ...any) bool {
	t.Helper()
	return report(t, got == want, got, want, about)
}

// EqualSlices reports slices that differ; one without elements is equal to nil.
func EqualSlices[S ~[]V, V comparable](t T, got, want S, about ...any) bool {
	t.Helper()
	return report(t, slices.Equal(got, want), got, want, about)
}

// DeepEqual reports values that reflect.DeepEqual distinguishes.
func DeepEqual(t T, got, want any, about ...any) bool {
	t.Helper()
	return report(t, reflect.DeepEqual(got, want), got, want, about)
}

// True reports that a condition does not hold.
func True(t T, condition bool, about ...any) bool {
	t.Helper()
	return report(t, condition, condition, true, about)
}

// False reports that a condition holds.
func False(t T, condition bool, about ...any) bool {
	t.Helper()
	return report(t, !condition, condition, false, about)
}

// Empty reports the elements of a slice, if it has any.
func Empty[V any](t T, got []V, about ...any) bool {
	t.Helper()
	return report(t, len(got) == 0, got, "nothing", about)
}

// NoError reports an error.
func NoError(t T, err error, about ...any) bool {
	t.Helper()
	return report(t, err == nil, err, "no error", about)
}

// Error reports that there is no error.
func Error(t T, err error, about ...any) bool {
	t.Helper()
	return report(t, err != nil, err, "an error", about)
}

// ErrorIs reports an error that is not want and does not wrap it.
func ErrorIs(t T, err, want error, about ...any) bool {
	t.Helper()
	return report(t, errors.Is(err, want), err, want, about)
}

// ErrorContains reports an error that is nil or does not contain a text.
func ErrorContains(t T, err error, part string, about ...any) bool {
	t.Helper()
	return report(t, err != nil && strings.Contains(err.Error(), part), err, "…"+part+"…", about)
}

// Contains reports a text that does not contain another one.
func Contains(t T, text, part string, about ...any) bool {
	t.Helper()
	return report(t, strings.Contains(text, part), text, "…"+part+"…", about)
}

// NotContains reports a text that contains another one.
func NotContains(t T, text, part string, about ...any) bool {
	t.Helper()
	return report(t, !strings.Contains(text, part), text, "nothing of "+part, about)
}

// report reports a difference if all is not well.
func report(t T, well bool, got, want any, about []any) bool {
	t.Helper()
	if well {
		return true
	}
	form := "%sgot  %+v\nwant %+v"
	if _, text := got.(string); text {
		form = "%sgot  %q\nwant %q"
	}
	t.Errorf(form, fmt.Sprintln(about...), got, want)
	return false
}
