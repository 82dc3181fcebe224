package webhook

import (
	"sync"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// requestQueue hands the events of one Send to its workers, one event at a time and in
// the journal's order, except that an event is held back until the one before it with
// the same PartitionKey is acknowledged; other events overtake it. It is safe for
// concurrent use.
type requestQueue struct {
	inFlight int // maximum number of requests in flight

	mu      sync.Mutex
	next    int               // all before it were handed out or held back
	held    []bool            // held[i]: an earlier event of i's key is not acknowledged yet
	after   []int             // after[i] is the next event of i's key; 0 if none
	results sinks.EventErrors // ErrNotTried until it is known
	// failures counts consecutive failures; an acknowledgement resets it.
	failures int
	stopped  bool
	// whole is the failure that also applies to the events not tried.
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

// take returns the next event to post. ok is false if there is none for this worker,
// now or later: an event held back goes to the worker that posts its predecessor.
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

// done records the result of event i, and returns the next event to post. After a failure
// it stops handing out events if that is not specific to the event: the target was not
// reached, it refuses or throttles the sink, or as many events failed in a row as there
// are requests in flight.
func (q *requestQueue) done(i int, perEvent bool, err error) (next int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.results[i] = err
	if err == nil {
		q.failures = 0
		if after := q.after[i]; after != 0 {
			q.held[after] = false
			if after < q.next && !q.stopped {
				return after, true // it was held back, and precedes all others
			}
		}
		return q.takeLocked()
	}
	q.failures++
	switch class, _ := sinks.ClassOf(err); {
	case class == sinks.Halted || class == sinks.Throttled:
		q.stopped = true
		if q.whole == nil || class == sinks.Halted {
			q.whole = err
		}
	case !perEvent || q.failures >= q.inFlight:
		q.stopped = true
	}
	return q.takeLocked()
}

// result returns the error for Send. It is called after all workers have returned.
func (q *requestQueue) result() error {
	for i, err := range q.results {
		if err == sinks.ErrNotTried && q.whole != nil {
			q.results[i] = q.whole
		}
	}
	if mostSevere(q.results) == nil {
		return nil
	}
	return q.results
}
