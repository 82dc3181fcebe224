package transform

import (
	"bytes"
	"iter"
)

// Change is a tracked field that differs between two versions of a detection.
type Change struct {
	Field    string
	From, To []byte // JSON values; nil if absent or null
}

// Changes yields the tracked fields that differ between two versions, given the
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

// Text returns the text of a JSON string, or a number as written; "" for any other
// value. An appliance may return either for a value that was set as a string.
func Text(value []byte) string { return text(value) }
