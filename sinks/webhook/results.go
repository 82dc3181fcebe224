package webhook

import (
	"fmt"
	"slices"

	"ndrbridge/internal/failure"
)

// results collects the results of events sent in several requests, one after another.
type results struct {
	each failure.EventErrors
	// together is the rejection of a request with several events, one of which is at
	// fault.
	together error
	apart    bool  // the result of at least one event is known
	whole    error // applies to all events
}

// add records the result of the next n events: nil, failure.EventErrors of length n, or
// one error for all of them. It reports whether each event is acknowledged or rejected,
// so that the events behind them may be sent.
func (t *results) add(n int, err error) (acknowledged bool) {
	if each, ok := err.(failure.EventErrors); ok && len(each) == n {
		t.each, t.apart = append(t.each, each...), true
		return rank(err) <= rejected
	} else if ok {
		err = fmt.Errorf("%d results for %d events: %w", len(each), n, err)
	}
	switch r := rank(err); {
	case r == 0, r == rejected && n == 1:
		t.apart, acknowledged = true, true
	case r == rejected:
		t.together, err = err, withOthers(err)
	default:
		t.whole = err
		err = ofRequest(err, n)
	}
	t.each = append(t.each, slices.Repeat([]error{err}, n)...)
	return acknowledged
}

// withOthers returns the result of an event in a rejected request with several events.
// Class Rejected is reserved for an event known to be at fault: only the text of the
// rejection is kept.
func withOthers(rejection error) error {
	return fmt.Errorf("%w: it was in a request with others: %v", failure.ErrNotTried, rejection)
}

// ofRequest returns the result of each event of a request with n events that failed because
// of err.
func ofRequest(err error, n int) error {
	if class, _ := failure.ClassOf(err); err != nil && n > 1 && class == failure.Transient && failure.ScopeOf(err) == failure.ScopeEvent {
		return &failure.Error{Class: class, Scope: failure.ScopeRequest, Err: err}
	}
	return err
}

// stop records that the remaining n events were not tried because of err. If err halts
// or throttles the sink, it is their error, too.
func (t *results) stop(n int, err error) {
	if each, ok := err.(failure.EventErrors); ok {
		err = mostSevere(each)
	}
	if rank(err) < throttled {
		err = failure.ErrNotTried
	}
	t.each = append(t.each, slices.Repeat([]error{err}, n)...)
}

// result returns the error for Send. If no single event's result is known, it is one
// error for all events: a rejection then means that one of them is at fault.
func (t *results) result() error {
	switch {
	case len(t.each) == 1:
		return t.each[0]
	case t.apart && mostSevere(t.each) == nil:
		return nil
	case t.apart:
		return t.each
	case t.whole != nil:
		return t.whole
	}
	return t.together
}

// mostSevere returns the first of the errors with the highest rank, or nil if all are nil.
func mostSevere(errs []error) error {
	var worst error
	for _, err := range errs {
		if rank(err) > rank(worst) {
			worst = err
		}
	}
	return worst
}

// The ranks of errors, by severity.
const (
	rejected = iota + 1
	transient
	throttled
	halted
)

// rank returns the rank of an error, 0 for nil. That of failure.EventErrors is the highest of
// its errors.
func rank(err error) int {
	if each, ok := err.(failure.EventErrors); ok {
		err = mostSevere(each)
	}
	if err == nil {
		return 0
	}
	switch class, _ := failure.ClassOf(err); class {
	case failure.Rejected:
		return rejected
	case failure.Throttled:
		return throttled
	case failure.Halted:
		return halted
	}
	return transient
}
