package transform

import (
	"bytes"
	"iter"
)

// Change is a tracked field in which two versions of a detection differ.
type Change struct {
	Field    string
	From, To []byte // JSON values; nil: absent, or null
}

// Changes yields the tracked fields in which two versions differ, given the
// Detection.Tracked of both.
func Changes(before, after []byte) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		from, to := trackedValues(before), trackedValues(after)
		for i, field := range tracked {
			if !bytes.Equal(from[i], to[i]) && !yield(Change{field, from[i], to[i]}) {
				return
			}
		}
	}
}

// Text is a JSON string's text, and a number as it is written; empty for anything
// else. An appliance may show as either what it was told as a string.
func Text(value []byte) string { return text(value) }
