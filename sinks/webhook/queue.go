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

// acknowledged records that event i is durable, and returns the next event to post.
func (q *requestQueue) acknowledged(i int) (next int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.results[i] = nil
	q.failures = 0
	if after := q.after[i]; after != 0 {
		q.held[after] = false
		if after < q.next && !q.stopped {
			return after, true // it was held back, and precedes all others
		}
	}
	return q.takeLocked()
}

// failed records the failure of event i, and returns the next event to post. It stops
// handing out events if the failure is not specific to the event: the target was not
// reached, it refuses or throttles the sink, or as many events failed in a row as there
// are requests in flight.
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
	case !f.perEvent || q.failures >= q.inFlight:
		q.stopped = true
	}
	return q.takeLocked()
}

// result returns the error for Send. It is called after all workers have returned.
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
