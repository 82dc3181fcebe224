package loopback

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"ndrbridge/transform"
)

// Receiver receives a webhook's events, one a request in structured mode, and keeps those
// that it accepts. It is safe for concurrent use.
type Receiver struct {
	URL string

	mu     sync.Mutex
	events []transform.Event
	answer int
	delay  time.Duration
}

// Receive starts a Receiver that accepts all events. Any other request fails the test.
func Receive(t testing.TB) *Receiver {
	t.Helper()
	r := new(Receiver)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return // the sender is gone
		}
		e, err := transform.Parse(body)
		if err != nil {
			t.Errorf("%v: %s", err, body)
			return
		}
		r.mu.Lock()
		delay := r.delay
		r.mu.Unlock()
		time.Sleep(delay)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.answer != 0 {
			w.WriteHeader(r.answer)
			return
		}
		r.events = append(r.events, e)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	r.URL = s.URL
	return r
}

// Answer makes the Receiver answer each request with a status and not keep its event; 0:
// accept events again.
func (r *Receiver) Answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = status
}

// Delay makes the Receiver wait before each answer.
func (r *Receiver) Delay(delay time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = delay
}

// Events returns the accepted events, in the order of arrival.
func (r *Receiver) Events() []transform.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
