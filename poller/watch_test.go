package poller_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/transform"
)

// scripted returns a source with these results of polls; the last one repeats.
func scripted(stream string, ends []error) *timed {
	return &timed{stream: stream, poll: func(n int) (poller.Next, error) { return poller.Idle, ends[min(n, len(ends)-1)] }}
}

// watched runs sources with one Watch for some time, and calls at, if not nil, before it stops
// them.
func watched[S poller.Source](t *testing.T, state *memory, lasts time.Duration, at func([]*poller.Poller), sources ...S) *poller.Watch {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	watch := poller.NewWatch(state, poller.WatchOptions{Appliance: "hq", After: 3, Log: log})
	ctx, stop := context.WithCancel(t.Context())
	go watch.Run(ctx)
	var pollers []*poller.Poller
	for _, s := range sources {
		p := poller.New(s, poller.Options{
			Interval: 10 * time.Second, RetryInitial: time.Second, RetryMax: time.Minute, AuthRetry: 30 * time.Second,
			Watch: watch, Log: log, Metrics: poller.NewMetrics(prometheus.NewRegistry()),
		})
		pollers = append(pollers, p)
		go p.Run(ctx)
	}
	time.Sleep(lasts)
	synctest.Wait() // at reads what the sources have written
	if at != nil {
		at(pollers)
	}
	stop()
	synctest.Wait()
	return watch
}

func TestAnApplianceThatCannotBePolledIsReported(t *testing.T) {
	down := &appliance.Error{Method: "GET", Path: "/x", Err: errors.New("connection refused")}
	refused := &appliance.Error{Method: "GET", Path: "/x", Status: http.StatusUnauthorized}
	full := errors.New("no space left on device")
	times := func(n int, err error) []error {
		var ends []error
		for range n {
			ends = append(ends, err)
		}
		return ends
	}
	for name, c := range map[string]struct {
		sources []*timed
		want    string
	}{
		"after failed polls in a row, once": {[]*timed{scripted("detections", times(1, down))}, "unreachable"},
		"as soon as they are enough":        {[]*timed{scripted("detections", append(times(3, down), nil))}, "unreachable reachable"},
		"and when it is back":               {[]*timed{scripted("detections", append(times(5, down), nil))}, "unreachable reachable"},
		"not after fewer failures":          {[]*timed{scripted("detections", append(times(2, down), nil, down, nil))}, ""},
		"not while another stream is read":  {[]*timed{scripted("detections", times(1, down)), scripted("audit", times(1, nil))}, ""},
		"when every stream fails, once":     {[]*timed{scripted("detections", times(1, down)), scripted("audit", times(1, down))}, "unreachable"},
		"when the key is refused":           {[]*timed{scripted("detections", times(1, refused))}, "unreachable"},
		"not for a full disk of our own":    {[]*timed{scripted("detections", times(1, full))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events []transform.Event
				state := newMemory(func(c checkpoint.Commit) { events = append(events, c.Events...) })
				watched(t, state, 5*time.Minute, nil, c.sources...)
				assert.Equal(t, actions(events), c.want, "reported")
				for _, e := range events {
					assert.True(t, e.Source == "ndrbridge://hq/events" && e.Stream() == "events" && e.PartitionKey == "hq" && e.Subject == "hq", "event", string(e.Structured()))
				}
			})
		})
	}
	t.Run("a restart in between repeats neither event", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var events []transform.Event
			state := newMemory(func(c checkpoint.Commit) { events = append(events, c.Events...) })
			watched(t, state, time.Minute, nil, scripted("detections", times(1, down)))
			watched(t, state, time.Minute, nil, scripted("detections", times(1, down)))
			watched(t, state, time.Minute, nil, scripted("detections", times(1, nil)))
			watched(t, state, time.Minute, nil, scripted("detections", times(1, nil)))
			assert.Equal(t, actions(events), "unreachable reachable", "reported")
			text := string(events[1].Data())
			assert.True(t, !strings.Contains(text, "connection refused") && strings.Contains(text, `"unreachable_seconds":120,"was_unreachable_since"`), text)
		})
	})
	t.Run("it is reported eventually although the state cannot be written at first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var events []transform.Event
			state := newMemory(func(c checkpoint.Commit) { events = append(events, c.Events...) })
			begin := time.Now()
			state.fail = func() (bool, bool) { return time.Since(begin) < time.Minute, false }
			watched(t, state, 5*time.Minute, nil, scripted("detections", times(1, down)))
			assert.Equal(t, actions(events), "unreachable", "reported")
		})
	})
}

func TestWhetherAnApplianceIsReached(t *testing.T) {
	failed := func(text string) error {
		return &appliance.Error{Method: "GET", Path: "/x", Err: errors.New(text)}
	}
	full := errors.New("no space left on device")
	for _, c := range []struct {
		name    string
		sources []*timed
		want    poller.Reach // with Since since the start, as the zero time and a duration
		since   time.Duration
	}{
		{"it is not known before a poll has ended", nil, poller.Reach{}, 0},
		{"it is from the first poll that succeeds", []*timed{scripted("detections", []error{failed("down"), nil})},
			poller.Reach{Known: true, Reachable: true}, time.Second},
		{"it is not known after the first failures", []*timed{scripted("detections", []error{failed("slow"), failed("slow"), full})},
			poller.Reach{Error: "GET /x: slow", Cause: "failed"}, 0},
		{"it is not from the first of the failures on", []*timed{scripted("detections", []error{nil, failed("slow"), failed("slow"), failed("down")})},
			poller.Reach{Known: true, Error: "GET /x: down", Cause: "failed"}, 10 * time.Second},
		{"it is while one of its streams is read, with what the other fails for", []*timed{scripted("detections", []error{nil}), scripted("audit", []error{failed("403")})},
			poller.Reach{Known: true, Reachable: true, Error: "GET /x: 403", Cause: "failed"}, 0},
		{"a failure that is over is not reported", []*timed{scripted("detections", []error{nil}), scripted("audit", []error{failed("403"), nil})},
			poller.Reach{Known: true, Reachable: true}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				got := watched(t, newMemory(func(checkpoint.Commit) {}), time.Minute, nil, c.sources...).Reach()
				if c.want.Known {
					// Waits have jitter.
					since := got.Since.Sub(begin)
					assert.True(t, since >= c.since/2 && since <= 2*c.since, "since", since, "want about", c.since)
					got.Since = time.Time{}
				}
				assert.Equal(t, got, c.want)
			})
		})
	}
}

func actions(events []transform.Event) string {
	var all []string
	for _, e := range events {
		all = append(all, e.Action())
	}
	return strings.Join(all, " ")
}
