package webhook

import (
	"ndrbridge/internal/failure"
)

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
		err = mostSevere(each)
	}
	class, _ := failure.ClassOf(err)
	scope := failure.ScopeOf(err)
	return err != nil && class != failure.Halted && (scope == failure.ScopeTarget || scope == failure.ScopePart)
}
