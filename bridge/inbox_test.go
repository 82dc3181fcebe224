package bridge_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"ndrbridge/transform"
)

// inbox is a webhook that keeps the events that it takes.
type inbox struct {
	url string

	mu     sync.Mutex
	events []transform.Event
	answer int // the status; 0: 204
}

func startInbox(t *testing.T) *inbox {
	t.Helper()
	i := new(inbox)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		e, err := transform.Parse(body)
		if err != nil {
			t.Errorf("%v: %s", err, body)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.answer != 0 {
			w.WriteHeader(i.answer)
			return
		}
		i.events = append(i.events, e)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	i.url = s.URL
	return i
}

// respond sets the status that is answered; 0: it takes what comes.
func (i *inbox) respond(status int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = status
}

// count counts the events of a type, or of all types.
func (i *inbox) count(kind string) int { return len(i.of(kind)) }

// of returns the events of a type; all where it is empty.
func (i *inbox) of(kind string) []transform.Event {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(i.events), func(e transform.Event) bool { return kind != "" && e.Type != kind })
}

// redelivered counts the events that are marked so.
func (i *inbox) redelivered() int {
	n := 0
	for _, e := range i.of("") {
		if e.Redelivered {
			n++
		}
	}
	return n
}

// refuseDuplicates tells events that came twice.
func (i *inbox) refuseDuplicates(t *testing.T) {
	t.Helper()
	seen := make(map[string]bool)
	for _, e := range i.of("") {
		if key := e.Source + " " + e.ID; seen[key] {
			t.Errorf("event %s came twice", key)
		} else {
			seen[key] = true
		}
	}
}
