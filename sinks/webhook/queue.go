package webhook

import (
	"sync"

	"ndrbridge/internal/failure"
	"ndrbridge/transform"
)

// requestQueue hands the events of one Send to its workers, one event at a time and in
// the journal's order, except that an event is held back until the one before it with
// the same PartitionKey is acknowledged; other events overtake it. It is safe for
// concurrent use.
type requestQueue struct {
	*results

	mu     sync.Mutex
	window *window
	next   int    // all before it were handed out or held back
	held   []bool // held[i]: an earlier event of i's key is not acknowledged yet
	after  []int  // after[i] is the next event of i's key; 0 if none
	ready  []int  // events before next that are no longer held back
	// failures counts consecutive failures; an acknowledgement resets it.
	failures int
	stopped  bool
}

func newQueue(events []transform.Event, w *window) *requestQueue {
	q := &requestQueue{
		results: newResults(len(events)),
		window:  w,
		held:    make([]bool, len(events)),
		after:   make([]int, len(events)),
	}
	latest := make(map[string]int, len(events))
	for i, e := range events {
		if before, ok := latest[e.PartitionKey]; ok {
			q.after[before], q.held[i] = i, true
		}
		latest[e.PartitionKey] = i
	}
	return q
}

// take returns the next event to post. ok is false if there is none for this worker: the
// workers that go on post the rest. more is true if another worker may post an event, too.
func (q *requestQueue) take() (i int, more, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || q.window.isFull() {
		return 0, false, false
	}
	if len(q.ready) > 0 { // they precede all others
		i, q.ready = q.ready[0], q.ready[1:]
	} else {
		for q.next < len(q.held) && q.held[q.next] {
			q.next++
		}
		if q.next == len(q.held) {
			return 0, false, false
		}
		i = q.next
		q.next++
	}
	q.window.begin()
	return i, !q.window.isFull() && len(q.ready)+len(q.held)-q.next > 0, true
}

// done records the result of event i. After a failure that is not specific to the event, no
// more events are handed out: the target is not available, it refuses or throttles the sink,
// or as many events failed in a row as may be in flight.
func (q *requestQueue) done(i int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add([]int{i}, err)
	q.window.end(err)
	if err == nil {
		q.failures = 0
		if after := q.after[i]; after != 0 {
			q.held[after] = false
			if after < q.next {
				q.ready = append(q.ready, after)
			}
		}
		return
	}
	q.failures++
	q.stopped = q.stopped || concernsAll(err) || overloaded(err) || q.failures >= q.window.max
}

// window is the number of requests that may be in flight. It is one until a request has
// succeeded, so that a target which refuses everything, for example because of a wrong
// password, is not asked many times at once. After that, it is halved if the target is
// overloaded, and grows by one whenever as many requests as it holds have succeeded
// (additive increase, multiplicative decrease). Its calls must be serialized.
type window struct {
	size, max int
	open      bool // a request has succeeded
	inFlight  int
	outdated  int // requests in flight since before size was halved
	succeeded int // requests since size changed
}

func newWindow(max int) window { return window{size: 1, max: max} }

func (w *window) isFull() bool { return w.inFlight >= w.size }

// begin records that a request begins.
func (w *window) begin() { w.inFlight++ }

// end records that a request has ended with err. If the target is overloaded, the other
// requests in flight have no effect: size is halved once for all of them.
func (w *window) end(err error) {
	w.inFlight--
	switch succeeded := err == nil; {
	case succeeded && !w.open:
		w.size, w.open = w.max, true
	case w.outdated > 0:
		w.outdated--
	case overloaded(err):
		w.size = max(1, min(w.size, w.inFlight+1)/2)
		w.outdated, w.succeeded = w.inFlight, 0
	case succeeded && w.size < w.max:
		if w.succeeded++; w.succeeded >= w.size {
			w.size, w.succeeded = w.size+1, 0
		}
	}
}

// overloaded reports whether a request failed because the target, or the part of it that an
// event goes to, is overloaded or cannot be reached.
func overloaded(err error) bool {
	if each, ok := err.(failure.EventErrors); ok {
		err = failure.MostSevere(each...)
	}
	class, _ := failure.ClassOf(err)
	scope := failure.ScopeOf(err)
	return err != nil && class != failure.Halted && (scope == failure.ScopeTarget || scope == failure.ScopePart)
}
