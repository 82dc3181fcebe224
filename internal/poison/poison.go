// Package poison distinguishes an item that can never be delivered from a target that is
// down or misconfigured:
//
//   - An item is poison once it has failed GiveUpAfter times and others succeeded before
//     each of these failures: the target works, and the item never will.
//   - A target is at fault once it has rejected HaltAfter items in a row and accepted
//     none.
package poison

import "time"

const (
	// GiveUpAfter is the number of failures of its own after which an item is poison, unless
	// a Rule says otherwise.
	GiveUpAfter = 20
	// HaltAfter is the number of consecutive rejections after which the target is at
	// fault rather than the items.
	HaltAfter = 20
)

// Rule decides when an item that fails while others succeed is poison: after Attempts failures,
// the first and the last of which are at least After apart.
type Rule struct {
	Attempts int
	After    time.Duration
}

// GivesUp reports whether an item is poison after a number of failures, given the times of the
// first and of the last.
func (r Rule) GivesUp(failures int, first, last time.Time) bool {
	return failures >= r.Attempts && last.Sub(first) >= r.After
}

// Failures counts the failures of one item. The zero value has counted none.
type Failures struct {
	own       int
	successes uint64 // of other items, at the last failure
}

// Add records a failure of the item and reports whether the item is poison. successes
// is the number of other items that have succeeded so far; it never decreases. If it
// has not increased since the last failure, the target may be down, and the failure
// does not count.
func (f *Failures) Add(successes uint64) (poison bool) {
	if successes != f.successes {
		f.own++
	}
	f.successes = successes
	return f.own >= GiveUpAfter
}

// Rejections counts the consecutive rejections of a target. The zero value has counted
// none.
type Rejections struct {
	inARow  int
	trusted bool
}

// Add records a rejection.
func (r *Rejections) Add() { r.inARow++ }

// Accepted records that the target accepted an item.
func (r *Rejections) Accepted() { r.inARow = 0 }

// Trust makes TargetAtFault return false until Distrust, however many items are
// rejected: the target is known to reject bad items and to accept good ones.
func (r *Rejections) Trust() { r.trusted = true }

// Distrust ends the effect of Trust.
func (r *Rejections) Distrust() { r.trusted = false }

// InARow returns the number of rejections since the target accepted an item.
func (r *Rejections) InARow() int { return r.inARow }

// TargetAtFault reports whether the target rejected HaltAfter items in a row and is not
// trusted.
func (r *Rejections) TargetAtFault() bool { return r.inARow >= HaltAfter && !r.trusted }
