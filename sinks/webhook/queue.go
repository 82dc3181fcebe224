package webhook

import (
	"sync"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// requestQueue hands the events of one Send to those who post them, one event at a
// time: in the journal's order, but that an event waits until the one before it
// of its PartitionKey was acknowledged, while others pass it. It is safe for
// concurrent use.
type requestQueue struct {
	inFlight int // at most

	mu      sync.Mutex
	next    int               // all before it were handed out or passed over
	held    []bool            // held[i]: an event before i of its key is not acknowledged
	after   []int             // after[i] is the next event of i's key; 0: none
	results sinks.EventErrors // ErrNotTried until it is known
	// failures counts those in a row; any acknowledgement ends the row.
	failures int
	stopped  bool
	// whole is the failure that concerns what was not tried, too.
	whole error
}

func newQueue(events []transform.Event, inFlight int) *requestQueue {
	q := &requestQueue{
		inFlight: inFlight,
		held:     make([]bool, len(events)),
		after:    make([]int, len(events)),
		results:  make(sinks.EventErrors, len(events)),
	}
	latest := make(map[string]int, len(events))
	for i, e := range events {
		q.results[i] = sinks.ErrNotTried
		if before, ok := latest[e.PartitionKey]; ok {
			q.after[before], q.held[i] = i, true
		}
		latest[e.PartitionKey] = i
	}
	return q
}

// take returns an event to post; ok is false where there is none, now or later,
// for this taker: what is held goes to whoever posts the event before it.
func (q *requestQueue) take() (i int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked()
}

func (q *requestQueue) takeLocked() (i int, ok bool) {
	for !q.stopped && q.next < len(q.held) {
		q.next++
		if i := q.next - 1; !q.held[i] {
			return i, true
		}
	}
	return 0, false
}

// acknowledged says that event i is durable, and takes the next one.
func (q *requestQueue) acknowledged(i int) (next int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.results[i] = nil
	q.failures = 0
	if after := q.after[i]; after != 0 {
		q.held[after] = false
		if after < q.next && !q.stopped {
			return after, true // it was passed over, and comes before all the rest
		}
	}
	return q.takeLocked()
}

// failed says what became of event i, and takes the next one. No event is handed
// out any more where the failure is not the event's own: the target was not
// reached, it refuses the sink or wants a wait, or as many events have failed in
// a row as there are requests in flight.
func (q *requestQueue) failed(i int, f *failure) (next int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.results[i] = f.err
	q.failures++
	switch class, _ := sinks.ClassOf(f.err); {
	case class == sinks.Halted || class == sinks.Throttled:
		q.stopped = true
		if q.whole == nil || class == sinks.Halted {
			q.whole = f.err
		}
	case !f.own || q.failures >= q.inFlight:
		q.stopped = true
	}
	return q.takeLocked()
}

// result is what Send returns when nobody posts any more.
func (q *requestQueue) result() error {
	none := true
	for i, err := range q.results {
		if err == sinks.ErrNotTried && q.whole != nil {
			q.results[i] = q.whole
		}
		none = none && err == nil
	}
	if none {
		return nil
	}
	return q.results
}
