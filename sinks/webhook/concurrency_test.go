package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// watcher is a receiver that sees which requests overlap. It answers with the
// status that a test gives for the ids of a request.
type watcher struct {
	url    string
	answer func(ids []string) int
	limit  int // of a body, in bytes; 0: none

	mu       sync.Mutex
	inFlight map[string]int // by key
	most     int            // requests in flight
	now      int
	requests int
	taken    []string
	overlap  string // a key that two requests had at once
}

func newWatcher(t testing.TB, answer func(ids []string) int) *watcher {
	w := &watcher{answer: answer, inFlight: map[string]int{}}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *watcher) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, err := presettest.Body(request)
	if err != nil {
		return
	}
	events, err := decode(request, body)
	if err != nil {
		response.WriteHeader(http.StatusNotAcceptable)
		return
	}
	var ids, keys []string
	for _, e := range events {
		ids = append(ids, e.ID())
		keys = append(keys, fmt.Sprint(e.Extensions()["partitionkey"]))
	}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	w.begin(keys)
	status := http.StatusRequestEntityTooLarge
	if w.limit == 0 || len(body) <= w.limit {
		status = w.answer(ids)
	}
	w.end(keys, ids, status)
	response.WriteHeader(status)
}

func (w *watcher) begin(keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	w.now++
	w.most = max(w.most, w.now)
	for _, key := range keys {
		if w.inFlight[key]++; w.inFlight[key] > 1 {
			w.overlap = key
		}
	}
}

func (w *watcher) end(keys, ids []string, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now--
	for _, key := range keys {
		w.inFlight[key]--
	}
	if status/100 == 2 {
		w.taken = append(w.taken, ids...)
	}
}

// counts returns the number of requests, the maximum in flight, and the events
// received.
func (w *watcher) counts() (requests, most int, taken []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests, w.most, slices.Clone(w.taken)
}

func TestOrderOfAKeyHoldsWhateverFails(t *testing.T) {
	var mu sync.Mutex
	answers := map[string]int{}
	w := newWatcher(t, func(ids []string) int {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			if status := answers[id]; status != 0 {
				return status
			}
		}
		return http.StatusNoContent
	})
	concurrencies := []int{0, 1, 2, 3, 5, 9, 32}
	opened := map[string]*webhook.Sink{}
	for _, mode := range modes {
		for _, concurrency := range concurrencies {
			opened[fmt.Sprint(mode, concurrency)] = open(t, webhook.Options{URL: w.url, Mode: mode, Concurrency: concurrency})
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom(modes).Draw(t, "mode")
		concurrency := rapid.SampledFrom(concurrencies).Draw(t, "concurrency")
		size := 0
		if mode == transform.Batch {
			size = rapid.SampledFrom([]int{0, 40 << 10}).Draw(t, "bytes of an event")
		}
		events := webhook.PlainEvents(t, rapid.IntRange(1, 60).Draw(t, "events"), rapid.IntRange(1, 40).Draw(t, "keys"), size)
		failures := map[string]int{}
		for range rapid.IntRange(0, 3).Draw(t, "failures") {
			i := rapid.IntRange(0, len(events)-1).Draw(t, "failing event")
			failures[events[i].ID] = rapid.SampledFrom([]int{400, 403, 413, 429, 500, 503}).Draw(t, "status")
		}
		mu.Lock()
		answers = failures
		mu.Unlock()
		w.mu.Lock()
		w.taken, w.most = nil, 0
		w.mu.Unlock()

		err := opened[fmt.Sprint(mode, concurrency)].Send(context.Background(), events)

		_, most, taken := w.counts()
		require.Equal(t, w.overlap, "", "two requests with key … at once")
		require.True(t, most <= max(1, concurrency), most, "requests at once")
		require.Equal(t, err == nil, len(failures) == 0, len(failures), "failing events, and the error", err)
		each, ok := errors.AsType[failure.EventErrors](err)
		if err != nil && !ok {
			require.True(t, (mode == transform.Batch || len(events) <= 1) && len(taken) == 0, "the error of the whole", err, len(taken), "events were taken")
			return
		}
		failed := map[string]bool{} // keys
		left := map[string][]string{}
		for i, e := range events {
			acknowledged := err == nil || each[i] == nil
			require.Equal(t, acknowledged, slices.Contains(taken, e.ID), "event", i, "acknowledged , its error is of another mind")
			if !acknowledged {
				failed[e.PartitionKey] = true
				continue
			}
			require.True(t, !failed[e.PartitionKey], "event", i, "was sent, and one before it of its key failed")
			left[e.PartitionKey] = append(left[e.PartitionKey], e.ID)
		}
		key := map[string]string{}
		for _, e := range events {
			key[e.ID] = e.PartitionKey
		}
		for _, id := range taken {
			queue := left[key[id]]
			require.True(t, len(queue) != 0 && queue[0] == id, "event", id, "came out of order")
			left[key[id]] = queue[1:]
		}
	})
}

// TestRequestsOverlap lets no request end before as many as are allowed have
// begun.
func TestRequestsOverlap(t *testing.T) {
	for _, test := range []struct {
		name    string
		options webhook.Options
		events  []transform.Event
		most    int
	}{
		{"an event a request", webhook.Options{Concurrency: 32}, sinktest.Events(100, 100, 0), 32},
		{"parts of a batch", webhook.Options{Concurrency: 5, Mode: transform.Batch}, webhook.PlainEvents(t, 20, 20, 140<<10), 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			begun := make(chan struct{}, len(test.events))
			together := make(chan struct{})
			var once sync.Once
			w := newWatcher(t, func([]string) int {
				if begun <- struct{}{}; len(begun) >= test.most {
					once.Do(func() { close(together) })
				}
				<-together
				return http.StatusOK
			})
			test.options.URL = w.url
			require.NoError(t, open(t, test.options).Send(t.Context(), test.events))
			_, most, taken := w.counts()
			assert.True(t, most == test.most && len(taken) == len(test.events), most, "requests at once", len(taken), "events")
		})
	}
}

func TestEffectOfAFailureOnOtherEvents(t *testing.T) {
	const n, concurrency = 60, 4
	events := sinktest.Events(n, n/2, 0) // event i+n/2 comes behind event i
	send := func(t *testing.T, answer func(id int) int) (failure.EventErrors, int) {
		numbers := map[string]int{}
		for i, e := range events {
			numbers[e.ID] = i
		}
		w := newWatcher(t, func(ids []string) int { return answer(numbers[ids[0]]) })
		err := open(t, webhook.Options{URL: w.url, Concurrency: concurrency}).Send(t.Context(), events)
		each, ok := errors.AsType[failure.EventErrors](err)
		require.True(t, ok && len(each) == n, err)
		requests, _, taken := w.counts()
		acknowledged := 0
		for i, err := range each {
			if err == nil {
				acknowledged++
				assert.True(t, slices.Contains(taken, events[i].ID), "event", i, "is said to have arrived")
			}
		}
		assert.Equal(t, acknowledged, len(taken), "acknowledged", "taken")
		return each, requests
	}
	class := func(err error) failure.Class {
		class, _ := failure.ClassOf(err)
		return class
	}
	for status, want := range map[int]failure.Class{422: failure.Rejected, 413: failure.Rejected, 500: failure.Transient} {
		t.Run(fmt.Sprintf("%d for one event holds up its own key alone", status), func(t *testing.T) {
			each, _ := send(t, func(id int) int {
				if id == 7 {
					return status
				}
				return 200
			})
			for i, err := range each {
				switch i {
				case 7:
					assert.True(t, class(err) == want && !errors.Is(err, failure.ErrNotTried), "event 7", err)
				case 7 + n/2:
					assert.ErrorIs(t, err, failure.ErrNotTried, "the event behind it")
				default:
					assert.NoError(t, err, "event", i)
				}
			}
		})
		t.Run(fmt.Sprintf("%d for every event ends the requests", status), func(t *testing.T) {
			each, requests := send(t, func(int) int { return status })
			assert.True(t, requests >= concurrency && requests <= 2*concurrency-1, requests, "requests")
			failed := 0
			for i, err := range each {
				switch {
				case errors.Is(err, failure.ErrNotTried):
				case class(err) == want:
					failed++
				default:
					t.Errorf("event %d: %v", i, err)
				}
			}
			assert.Equal(t, failed, requests, "requests", "failures")
		})
	}
	for status, want := range map[int]failure.Class{403: failure.Halted, 307: failure.Halted, 429: failure.Throttled} {
		t.Run(fmt.Sprintf("%d is the answer to all that was not tried", status), func(t *testing.T) {
			each, requests := send(t, func(id int) int {
				if id == 9 {
					return status
				}
				if id > 9 {
					// In flight when the answer comes, which a busy machine may take a while to read.
					time.Sleep(time.Second)
				}
				return 200
			})
			assert.True(t, requests >= 10 && requests <= 10+concurrency-1, requests, "requests")
			for i, err := range each {
				assert.True(t, i >= 9 || err == nil, "event", i, err)
				if err != nil && (class(err) != want || errors.Is(err, failure.ErrNotTried)) {
					t.Errorf("event %d: class %s: %v", i, class(err), err)
				}
			}
		})
	}
	t.Run("a halt weighs more than a throttle", func(t *testing.T) {
		var together sync.WaitGroup
		together.Add(concurrency)
		each, _ := send(t, func(id int) int {
			together.Done()
			together.Wait()
			if id == 2 {
				return 401
			}
			return 429
		})
		assert.Equal(t, class(each[n-1]), failure.Halted, "class", each)
	})
}

func TestAReceiverThatIsOverloadedGetsOneRequestASendInTheEnd(t *testing.T) {
	w := newWatcher(t, func([]string) int { return http.StatusBadGateway })
	s := open(t, webhook.Options{URL: w.url, Concurrency: 8})
	before := 0
	for n := range 5 {
		err := s.Send(t.Context(), sinktest.Events(40, 40, 0))
		require.True(t, err != nil, "no")
		requests, _, _ := w.counts()
		assert.True(t, n < 3 || requests-before == 1, requests-before, "requests in send", n+1)
		before = requests
	}
}

func TestAPartOfABatchThatIsRejectedIsSentAgain(t *testing.T) {
	events := webhook.PlainEvents(t, 16, 16, 140<<10)
	refused := events[5].ID
	w := newWatcher(t, func(ids []string) int {
		if slices.Contains(ids, refused) {
			return http.StatusRequestEntityTooLarge
		}
		return http.StatusOK
	})
	s := open(t, webhook.Options{URL: w.url, Mode: transform.Batch, Concurrency: 4})
	err := s.Send(t.Context(), events)
	each, ok := errors.AsType[failure.EventErrors](err)
	require.True(t, ok && len(each) == len(events), err)
	var again []transform.Event
	for i, err := range each {
		if err == nil {
			continue
		}
		again = append(again, events[i])
		class, _ := failure.ClassOf(err)
		assert.True(t, class == failure.Transient && errors.Is(err, failure.ErrNotTried) && strings.Contains(err.Error(), "413"), "event", i, "class", class, err)
	}
	require.Equal(t, len(again), 4, "events to send again")
	require.Equal(t, again[1].ID, refused)
	err = s.Send(t.Context(), again)
	sinktest.ExpectFailure(t, err, failure.Rejected)
	_, some := errors.AsType[failure.EventErrors](err)
	assert.False(t, some, "which event is at fault is not known", err)
}

func TestNothingIsSentAfterTheContextIsDone(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			begun := make(chan struct{}, 100)
			leave := make(chan struct{})
			w := newWatcher(t, func([]string) int {
				begun <- struct{}{}
				<-leave
				return http.StatusOK
			})
			t.Cleanup(func() { close(leave) }) // before the server is closed
			s := open(t, webhook.Options{URL: w.url, Mode: mode, Concurrency: 32})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-begun
				cancel()
			}()
			err := s.Send(ctx, webhook.PlainEvents(t, 100, 100, 30<<10))
			require.True(t, err != nil && strings.Contains(err.Error(), context.Canceled.Error()), err)
			requests, _, taken := w.counts()
			assert.True(t, requests <= 32, len(taken), "events", requests, "requests")
			assert.Empty(t, taken, len(taken), "events")
		})
	}
}
