package webhook

import (
	"fmt"

	"ndrbridge/sinks"
)

// results collects the results of events sent in several requests, one after another.
type results struct {
	each sinks.EventErrors
	// together is the rejection of a request with several events, one of which is at
	// fault.
	together error
	apart    bool  // the result of at least one event is known
	whole    error // applies to all events
}

// add records the result of the next n events: nil, sinks.EventErrors of length n, or
// one error for all of them. It reports whether each event is acknowledged or rejected,
// so that the events behind them may be sent.
func (t *results) add(n int, err error) (acknowledged bool) {
	if each, ok := err.(sinks.EventErrors); ok && len(each) == n {
		t.each = append(t.each, each...)
		t.apart = true
		for _, err := range each {
			if class, _ := sinks.ClassOf(err); err != nil && class != sinks.Rejected {
				return false
			}
		}
		return true
	}
	class, _ := sinks.ClassOf(err)
	switch {
	case err == nil, class == sinks.Rejected && n == 1:
		t.apart, acknowledged = true, true
	case class == sinks.Rejected:
		t.together = err
		err = withOthers(err)
	default:
		t.whole = err
	}
	for range n {
		t.each = append(t.each, err)
	}
	return acknowledged
}

// withOthers returns the result of an event in a rejected request with several events.
// Class Rejected is reserved for an event known to be at fault: only the text of the
// rejection is kept.
func withOthers(rejection error) error {
	return fmt.Errorf("%w: it was in a request with others: %v", sinks.ErrNotTried, rejection)
}

// stop records that the remaining n events were not tried because of err. If err halts
// or throttles the sink, it is their error, too.
func (t *results) stop(n int, err error) {
	err = mostSevere(err)
	if class, _ := sinks.ClassOf(err); class != sinks.Halted && class != sinks.Throttled {
		err = sinks.ErrNotTried
	}
	for range n {
		t.each = append(t.each, err)
	}
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

// mostSevere returns the most severe error of sinks.EventErrors; it returns any other
// error unchanged.
func mostSevere(err error) error {
	each, ok := err.(sinks.EventErrors)
	if !ok {
		return err
	}
	var worst error
	for _, err := range each {
		if err != nil && (worst == nil || rank(err) > rank(worst)) {
			worst = err
		}
	}
	return worst
}
