package webhook

import (
	"fmt"

	"ndrbridge/sinks"
)

// counts collects what became of events that were sent in several requests, one
// after the other.
type results struct {
	each sinks.EventErrors
	// together is the rejection of a request with several events, of which one is
	// at fault.
	together error
	apart    bool // the result of some event is known
	whole    error
}

// add takes the result of the next n events: nil, sinks.EventErrors of as many, or
// one error for all of them. It reports whether each is acknowledged or rejected for
// good, so that what is behind it may follow.
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

// withOthers is the result of an event in a request that was rejected for one of several.
// Rejected is for an event that is known to be at fault: of the rejection the text
// alone stays.
func withOthers(rejection error) error {
	return fmt.Errorf("%w: it was in a request with others: %v", sinks.ErrNotTried, rejection)
}

// stop says that the n events behind were not tried because of err, which is
// theirs, too, where it asks the sink to wait or to halt.
func (t *results) stop(n int, err error) {
	err = mostSevere(err)
	if class, _ := sinks.ClassOf(err); class != sinks.Halted && class != sinks.Throttled {
		err = sinks.ErrNotTried
	}
	for range n {
		t.each = append(t.each, err)
	}
}

// result is what Send returns. Where no event is told from the others, it is one
// error for all of them: a rejection then says that one of them is at fault.
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

// most severe is the most severe of the errors of events, and any other error as it is.
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
