package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// lines is a preset of a service that accepts up to three events in a request, one id
// per line. It cannot encode an id that begins with "never", and a service that answers
// "later" asks for another request.
type lines struct {
	perSecond float64
	secret    string
	again     *url.URL
	undivided bool
}

func (p lines) preset() *webhook.Preset {
	return &webhook.Preset{
		Header:  map[string]string{"Content-Type": "text/plain", "X-Key": p.secret},
		Secrets: []string{"hidden-" + p.secret}, RequestsPerSecond: p.perSecond, Undivided: p.undivided,
		Compose: p.compose, Converse: p.converse,
	}
}

func (p lines) converse(ctx context.Context, c *webhook.Conversation, events []transform.Event) (int, error) {
	r, err := p.compose(events)
	if err != nil {
		return 1, err
	}
	n := r.Events
	for {
		a, err := c.Do(ctx, r)
		if err != nil {
			return n, err
		}
		if string(a.Body) != "later" {
			return n, a.Refusal()
		}
		r = webhook.Request{Events: n, Body: []byte("now?"), URL: p.again, After: time.Millisecond}
	}
}

func (p lines) compose(events []transform.Event) (webhook.Request, error) {
	var body []byte
	n := 0
	for ; n < min(len(events), 3) && !strings.HasPrefix(events[n].ID, "never"); n++ {
		body = append(append(body, events[n].ID...), '\n')
	}
	if n == 0 {
		return webhook.Request{}, failure.Errorf(failure.Rejected, "%s cannot be said", events[0].ID)
	}
	return webhook.Request{Events: n, Body: body}, nil
}

// named makes events that have these ids, all of one key.
func named(t require.T, ids ...string) []transform.Event {
	events := make([]transform.Event, len(ids))
	for i, id := range ids {
		var err error
		events[i], err = transform.New(transform.Attributes{
			ID: id, Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated", PartitionKey: "7", RecordedTime: time.Now(),
		}, []byte(`{"detection":{}}`))
		require.NoError(t, err)
	}
	return events
}

// serveLines serves the requests of lines with the ids they carry.
func serveLines(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, ids []string)) *httptest.Server {
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		answer(w, r, strings.Fields(string(body)))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestAPresetsRequestsFollowOneAnother(t *testing.T) {
	for _, test := range []struct {
		name string
		ids  string
		// refuse is the status of a request with this id.
		refuse  map[string]int
		want    string // what the service took
		results string // of each event: . acknowledged, or the first dead letter of the class, - not tried
	}{
		{"as many as carry them all", "a b c d e f g", nil, "a b c d e f g", ""},
		{"what cannot be said is rejected alone", "a never b c d", nil, "a b c d", ".r..."},
		{"what cannot be said may come first and last", "never1 a never2", nil, "a", "r.r"},
		{"a request that is refused for one of its events is followed by none", "a b c d e f g", map[string]int{"e": 400}, "a b c", "...----"},
		{"a request of one event that is refused is rejected, and others follow", "a b c d never e", map[string]int{"d": 400}, "a b c e", "...rr."},
		{"a failure ends it, and what is behind was not tried", "a b c d e f g", map[string]int{"d": 500}, "a b c", "...ttt-"},
		{"a wait is that of all behind it", "a b c d e f g", map[string]int{"d": 429}, "a b c", "...tttt"},
		{"a halt is that of all behind it", "a b c d e f g", map[string]int{"d": 401}, "a b c", "...hhhh"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var taken []string
			s := serveLines(t, func(w http.ResponseWriter, _ *http.Request, ids []string) {
				for _, id := range ids {
					if status := test.refuse[id]; status != 0 {
						w.WriteHeader(status)
						return
					}
				}
				taken = append(taken, ids...)
			})
			err := open(t, webhook.Options{URL: s.URL, Preset: lines{}.preset()}).Send(t.Context(), named(t, strings.Fields(test.ids)...))
			assert.Equal(t, strings.Join(taken, " "), test.want, "taken")
			if test.results == "" {
				assert.NoError(t, err)
				return
			}
			each, ok := errors.AsType[failure.EventErrors](err)
			require.True(t, ok, "no result for each event", err)
			assert.Equal(t, deadLetters(each), test.results, "results", err)
		})
	}
}

func deadLetters(each failure.EventErrors) string {
	var b strings.Builder
	for _, err := range each {
		class, _ := failure.ClassOf(err)
		switch {
		case err == nil:
			b.WriteByte('.')
		case errors.Is(err, failure.ErrNotTried):
			b.WriteByte('-')
		default:
			b.WriteByte(class[0])
		}
	}
	return b.String()
}

func TestARefusalOfAllIsOneError(t *testing.T) {
	for status, want := range map[int]failure.Class{400: failure.Rejected, 401: failure.Halted, 500: failure.Transient, 302: failure.Halted} {
		s := serveLines(t, func(w http.ResponseWriter, _ *http.Request, _ []string) { w.WriteHeader(status) })
		err := open(t, webhook.Options{URL: s.URL, Preset: lines{}.preset()}).Send(t.Context(), named(t, "a", "b"))
		_, apart := err.(failure.EventErrors)
		assert.True(t, !apart && err != nil, status, err)
		sinktest.ExpectFailure(t, err, want)
	}
}

func TestAnAnswerMayAskForAnotherRequest(t *testing.T) {
	var came []string
	s := serveLines(t, func(w http.ResponseWriter, r *http.Request, ids []string) {
		came = append(came, r.URL.Path+" "+strings.Join(ids, ","))
		if len(came) < 3 {
			fmt.Fprint(w, "later")
		}
	})
	again := require.Value(url.Parse(s.URL + "/again"))(t)
	require.NoError(t, open(t, webhook.Options{URL: s.URL + "/hook", Preset: lines{again: again}.preset()}).Send(t.Context(), named(t, "a")))
	assert.EqualSlices(t, came, []string{"/hook a", "/again now?", "/again now?"}, "came")
}

func TestAPresetKeepsToItsRate(t *testing.T) {
	var at []time.Time
	s := serveLines(t, func(http.ResponseWriter, *http.Request, []string) { at = append(at, time.Now()) })
	sink := open(t, webhook.Options{URL: s.URL, Preset: lines{perSecond: 20}.preset()})
	for range 2 {
		require.NoError(t, sink.Send(t.Context(), named(t, "a", "b", "c", "d", "e", "f")))
	}
	// A limiter never lets a request go early; how late it goes is not ours to say.
	took := at[3].Sub(at[0])
	assert.True(t, len(at) == 4 && took >= 140*time.Millisecond, len(at), "requests in", took)
}

// TestNothingIsLostByAPreset has a service reject some of the events permanently and fail
// at times, and a runner deliver to it.
func TestNothingIsLostByAPreset(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 0))
		ids := []string{"good"} // a service that takes nothing halts the sink
		bad := map[string]bool{}
		for i := range 20 {
			id := fmt.Sprint("event", i)
			switch random.IntN(6) {
			case 0:
				id = fmt.Sprint("never", i)
				bad[id] = true
			case 1:
				bad[id] = true
			}
			ids = append(ids, id)
		}
		var taken []string
		s := serveLines(t, func(w http.ResponseWriter, _ *http.Request, ids []string) {
			switch fault := random.IntN(10); {
			case fault == 0:
				w.WriteHeader(http.StatusInternalServerError)
			case fault == 1:
				w.WriteHeader(http.StatusTooManyRequests)
			case slices.ContainsFunc(ids, func(id string) bool { return bad[id] }):
				w.WriteHeader(http.StatusBadRequest)
			default:
				taken = append(taken, ids...)
			}
		})
		dead, _ := deliver(t, webhook.Options{URL: s.URL, Preset: lines{}.preset()}, checkpoint.Batch{MaxEvents: 8, MaxBytes: 1 << 20}, named(t, ids...))
		want := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return bad[id] })
		require.True(t, slices.Equal(taken, want) && len(dead) == len(bad), "seed", seed, "taken", taken, "and dead", dead, ids)
	}
}

func TestWhatBelongsTogetherIsNotDivided(t *testing.T) {
	events := webhook.PlainEvents(t, 6, 6, 600<<10)
	for name, test := range map[string]struct {
		undivided bool
		requests  int
	}{
		"a large batch is divided":                   {false, 6},
		"that of a service of one message at a time": {true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			s := serveLines(t, func(http.ResponseWriter, *http.Request, []string) { requests++ })
			require.NoError(t, open(t, webhook.Options{URL: s.URL, Preset: lines{undivided: test.undivided}.preset(), Concurrency: 8}).Send(t.Context(), events))
			assert.Equal(t, requests, test.requests, "requests")
		})
	}
}

func TestPartsOfALargeBatchHaveTheirOwnResults(t *testing.T) {
	// Each of the events is large enough for a request of its own.
	events := webhook.PlainEvents(t, 8, 8, 600<<10)
	for _, test := range []struct {
		name    string
		ids     string
		status  map[string]int
		results string
	}{
		{"one fails", "0 1 2 3 4 5 6 7", map[string]int{"3": 500}, "...t...."},
		{"one is rejected, and one cannot be said", "0 1 never 3 4 5 6 7", map[string]int{"4": 400}, "..r.r..."},
		{"none is taken", "0 1 2 3", map[string]int{"0": 400, "1": 429, "2": 500, "3": 401}, "rtth"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serveLines(t, func(w http.ResponseWriter, _ *http.Request, ids []string) {
				for _, id := range ids {
					if status := test.status[id]; status != 0 {
						w.WriteHeader(status)
						return
					}
				}
			})
			ids := strings.Fields(test.ids)
			sent := slices.Clone(events[:len(ids)])
			for i, id := range ids {
				var err error
				a := sent[i].Attributes
				a.ID = id
				sent[i], err = transform.New(a, sent[i].Data())
				require.NoError(t, err)
			}
			err := open(t, webhook.Options{URL: s.URL, Preset: lines{}.preset(), Concurrency: 8}).Send(t.Context(), sent)
			each, ok := errors.AsType[failure.EventErrors](err)
			require.True(t, ok, "no result for each event", err)
			assert.Equal(t, deadLetters(each), test.results, "results", err)
		})
	}
}
