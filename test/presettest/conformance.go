package presettest

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// Store is a preset of a service that stores whole events, and what the service does.
type Store struct {
	// Open returns the preset, with the key s3cret-key.
	Open func(url string) (*webhook.Preset, error)
	// Unpack returns the events in a request.
	Unpack func(body []byte) ([][]byte, error)
	// Answer writes the result of a request's events: whether each was refused.
	Answer func(w http.ResponseWriter, refused []bool)
	// Options are those of the webhook.
	Options webhook.Options
}

// store is the service of a Store.
type store struct {
	Store

	mu     sync.Mutex
	held   []event.Event
	wrong  error
	refuse string
	fault  http.HandlerFunc
}

func (s *store) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := Body(request)
	if err != nil {
		return // the sink gave up
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		s.fault(w, request)
		return
	}
	raw, err := s.Unpack(body)
	if err != nil {
		s.wrong = err
	}
	refused := make([]bool, len(raw))
	var events []event.Event
	for i, one := range raw {
		e, err := sinktest.Structured(one)
		if err != nil {
			s.wrong = fmt.Errorf("%w: %.300s", err, one)
		}
		refused[i] = e.ID() == s.refuse
		events = append(events, e)
	}
	recorder := httptest.NewRecorder()
	s.Answer(recorder, refused)
	for i, e := range events {
		if recorder.Code/100 == 2 && !refused[i] {
			s.held = append(s.held, e)
		}
	}
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
}

// Body returns the body of a request, decompressed.
func Body(request *http.Request) ([]byte, error) {
	if request.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(request.Body)
	}
	body, err := gzip.NewReader(request.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(body)
}

func (s *store) received() ([]event.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.held), s.wrong
}

func (s *store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Whole is Store.Answer of a service that refuses a request as a whole if it refuses an
// event, and otherwise answers with the status ok and body.
func Whole(ok int, body string) func(http.ResponseWriter, []bool) {
	return func(w http.ResponseWriter, refused []bool) {
		if slices.Contains(refused, true) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(ok)
		_, _ = io.WriteString(w, body)
	}
}

// Conformance runs the conformance suite of sinks with a preset.
func Conformance(t *testing.T, preset Store) {
	sinktest.Run(t, []transform.Mode{transform.Structured}, func(t *testing.T, _ transform.Mode) sinktest.Target {
		s := &store{Store: preset}
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		relay := sinktest.NewRelay(t, server.Listener.Addr().String())
		o := preset.Options
		o.URL = "http://" + relay.Addr()
		fault := func(status int, retryAfter string) {
			s.set(func() {
				s.fault = func(w http.ResponseWriter, request *http.Request) {
					w.Header().Set("Retry-After", retryAfter)
					http.Error(w, fmt.Sprint(request.Header), status)
				}
			})
		}
		return sinktest.Target{
			Open: func(l *lease.Lease) (_ sinks.Sink, err error) {
				if o.Preset, err = preset.Open(o.URL); err != nil {
					return nil, err
				}
				o.Lease = l
				return webhook.New(o)
			},
			Received: s.received,
			Down:     relay.Down,
			Hang:     relay.Hang,
			Stall:    relay.Stall,
			Resume:   relay.Resume,
			Halt:     func() { fault(http.StatusForbidden, "") },
			Throttle: func() time.Duration {
				fault(http.StatusTooManyRequests, "7")
				return 7 * time.Second
			},
			Reject: func(id string) { s.set(func() { s.refuse = id }) },
			Restore: func() {
				s.set(func() { s.fault = nil })
				relay.Restore()
			},
			Secrets: []string{"s3cret-key"},
		}
	})
}
