package webhook

import (
	"fmt"
	"slices"
	"sync"

	"ndrbridge/internal/failure"
)

// results collects the results of the events of one Send. It is safe for concurrent use.
type results struct {
	mu    sync.Mutex
	each  failure.EventErrors // ErrNotTried until it is known
	known bool                // the result of at least one event is known
	worst error               // the most severe failure of a request
}

func newResults(n int) *results {
	return &results{each: slices.Repeat(failure.EventErrors{failure.ErrNotTried}, n)}
}

// add records the result of a request with the events at indexes: nil, failure.EventErrors of
// that length, or one error for all of them. It reports whether each event is acknowledged or
// rejected, so that the events behind them may be sent.
func (t *results) add(indexes []int, err error) (acknowledged bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	each, apart := err.(failure.EventErrors)
	if apart && len(each) != len(indexes) {
		err, apart = fmt.Errorf("%d results for %d events: %w", len(each), len(indexes), err), false
	}
	if !apart {
		each = slices.Repeat(failure.EventErrors{ofRequest(err, len(indexes))}, len(indexes))
	}
	for n, i := range indexes {
		t.each[i] = each[n]
	}
	worst := err
	if apart {
		worst = failure.MostSevere(each...)
	}
	t.worst = failure.MostSevere(t.worst, worst)
	t.known = t.known || apart || err == nil || len(indexes) == 1
	class, _ := failure.ClassOf(worst)
	return worst == nil || class == failure.Rejected && (apart || len(indexes) == 1)
}

// ofRequest returns the result of each event of a request with n events that failed because
// of err. Class Rejected is reserved for an event known to be at fault: if there are several,
// only the text of the rejection is kept.
func ofRequest(err error, n int) error {
	class, _ := failure.ClassOf(err)
	switch {
	case err == nil || n == 1:
		return err
	case class == failure.Rejected:
		return fmt.Errorf("%w: it was in a request with others: %v", failure.ErrNotTried, err)
	case class == failure.Transient && failure.ScopeOf(err) == failure.ScopeEvent:
		return &failure.Error{Class: class, Scope: failure.ScopeRequest, Err: err}
	}
	return err
}

// result returns the error for Send. If no single event's result is known, it is the most severe
// error, for all events: a rejection then means that one of them is at fault. If an error halts
// or throttles the sink, it is that of the events that were not tried, too.
func (t *results) result() error {
	for i, err := range t.each {
		if err == failure.ErrNotTried && concernsAll(t.worst) {
			t.each[i] = t.worst
		}
	}
	switch {
	case !t.known:
		return t.worst
	case len(t.each) == 1:
		return t.each[0]
	}
	return t.each.OrNil()
}

// concernsAll reports whether an error halts or throttles the sink.
func concernsAll(err error) bool {
	class, _ := failure.ClassOf(err)
	return class == failure.Halted || class == failure.Throttled
}
