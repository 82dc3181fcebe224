package main

import (
	"io"
	"net/http"
	"sync/atomic"

	"ndrbridge/transform"
)

// receiver is a webhook that accepts events. For one event in a hundred it hangs up before
// responding, so that the event is sent again.
type receiver struct {
	arrivals *arrivals
	samples  chan<- transform.Event // events are dropped if no sample is awaited
	requests atomic.Int64
}

// ServeHTTP accepts one event in structured mode.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	const hangUpOn = 100
	body, err := io.ReadAll(request.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the sender is gone
	}
	e, err := r.arrivals.receive(sinkSOC, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case r.samples <- e:
	default:
	}
	if r.requests.Add(1)%hangUpOn == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
}
