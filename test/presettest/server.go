package presettest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// Reply is a server's answer.
type Reply struct {
	Status int
	Header map[string]string
	Body   string
}

// Request is a request that a server received.
type Request struct {
	Path, Query string
	Header      http.Header
	Body        []byte
}

// Server is an HTTP server that records its requests.
type Server struct {
	URL string

	mu       sync.Mutex
	answer   func(Request) Reply
	requests []Request
}

// Serve starts a server that answers every request with a function, one at a time.
func Serve(t testing.TB, answer func(Request) Reply) *Server {
	s := &Server{answer: answer}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sink gave up
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		request := Request{r.URL.Path, r.URL.RawQuery, r.Header, body}
		s.requests = append(s.requests, request)
		reply := s.answer(request)
		for name, value := range reply.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(reply.Status)
		_, _ = io.WriteString(w, reply.Body)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Requests returns the requests received, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[:len(s.requests):len(s.requests)]
}

// Open returns the preset for a URL.
func Open(t testing.TB, open func(url string) (*webhook.Preset, error), url string) *webhook.Preset {
	t.Helper()
	p, err := open(url)
	require.NoError(t, err)
	return p
}

// EveryKind sends events of every kind, each to a service of its own, and compares the bodies
// of the requests with golden files.
func EveryKind(t *testing.T, service func() func(Request) Reply, open func(url string) (*webhook.Preset, error)) {
	for _, kind := range Events(t) {
		t.Run(kind.Name, func(t *testing.T) {
			s := Serve(t, service())
			require.NoError(t, Send(t, s.URL, Open(t, open, s.URL), kind.Event))
			Golden(t, kind.Name, s.Requests()[0].Body)
			for _, r := range s.Requests() {
				assert.Equal(t, strings.Contains(string(r.Body), transform.TestTitle), kind.Event.IsTest(), "a request is marked as a test")
			}
		})
	}
}

// Send sends events by a preset, without its rate limit, which would slow tests down.
func Send(t testing.TB, url string, p *webhook.Preset, events ...transform.Event) error {
	t.Helper()
	return SendWithMemory(t, url, p, nil, events...)
}

// SendWithMemory is Send with a memory.
func SendWithMemory(t testing.TB, url string, p *webhook.Preset, m *webhook.Memory, events ...transform.Event) error {
	t.Helper()
	unlimited := *p
	unlimited.RequestsPerSecond = 0
	s, err := webhook.New(webhook.Options{URL: url, Preset: &unlimited, Memory: m, Timeout: 20 * time.Second})
	require.NoError(t, err)
	defer s.Close()
	return s.Send(t.Context(), events)
}

// Memory returns the memory of a sink in an empty state.
func Memory(t testing.TB) *webhook.Memory {
	t.Helper()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	require.NoError(t, store.Configure(t.Context(), map[string]checkpoint.Start{"s": {}}))
	return &webhook.Memory{Store: store, Sink: "s", Keep: time.Hour}
}

// FaultyStore is a state whose calls may fail.
type FaultyStore struct {
	webhook.MemoryStore
	// Recall and Remember are called before each of the state's calls, and may return its
	// error; nil means that it succeeds.
	Recall, Remember func() error
}

// Faulty puts a FaultyStore in front of the state of m.
func Faulty(m *webhook.Memory) *FaultyStore {
	f := &FaultyStore{MemoryStore: m.Store}
	m.Store = f
	return f
}

// RecallSink implements webhook.MemoryStore.
func (f *FaultyStore) RecallSink(ctx context.Context, sink string, keys []string) ([][]byte, error) {
	if f.Recall != nil {
		if err := f.Recall(); err != nil {
			return nil, err
		}
	}
	return f.MemoryStore.RecallSink(ctx, sink, keys)
}

// RememberSink implements webhook.MemoryStore.
func (f *FaultyStore) RememberSink(ctx context.Context, sink string, entries []checkpoint.Entry, forgetBefore int64, events ...transform.Event) error {
	if f.Remember != nil {
		if err := f.Remember(); err != nil {
			return err
		}
	}
	return f.MemoryStore.RememberSink(ctx, sink, entries, forgetBefore, events...)
}

// Result returns the class and the wait of the most severe event's error; "" for nil.
func Result(err error) (failure.Class, time.Duration) {
	if err == nil {
		return "", 0
	}
	if each, ok := errors.AsType[failure.EventErrors](err); ok {
		err = failure.MostSevere(each...)
	}
	return failure.ClassOf(err)
}

// Case is an answer and its expected result for the only event of a request.
type Case struct {
	Name  string
	Reply Reply
	Class failure.Class // empty if durable
	Wait  time.Duration
}

// Answers sends an event for each of the cases.
func Answers(t *testing.T, event transform.Event, open func(url string) (*webhook.Preset, error), cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			s := Serve(t, func(Request) Reply { return c.Reply })
			err := Send(t, s.URL+"/hook", Open(t, open, s.URL+"/hook"), event)
			class, wait := Result(err)
			if class != c.Class || wait != c.Wait {
				t.Errorf("%s, wait %v; want %s, wait %v: %v", class, wait, c.Class, c.Wait, err)
			}
		})
	}
}
