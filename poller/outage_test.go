package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// during is a source whose polls end as a function of when they began, after some time.
type during struct {
	stream string
	ends   func(since time.Duration) (takes time.Duration, err error)
	begun  time.Time
	polls  []time.Duration // when each began
	level  []time.Duration // when each that succeeded ended
}

func (d *during) Source() checkpoint.Source {
	return checkpoint.Source{Appliance: "hq", Stream: d.stream}
}

func (d *during) Poll(ctx context.Context) (poller.Next, error) {
	at := time.Since(d.begun)
	d.polls = append(d.polls, at)
	takes, err := d.ends(at)
	select {
	case <-ctx.Done():
		return poller.Idle, ctx.Err()
	case <-time.After(takes):
	}
	if err == nil {
		d.level = append(d.level, time.Since(d.begun))
	}
	return poller.Idle, err
}

func (d *during) Progress() (poller.Progress, bool) {
	if len(d.level) == 0 {
		return poller.Progress{}, false
	}
	return poller.Progress{Known: d.begun.Add(d.level[len(d.level)-1])}, true
}

// runDuring runs the sources for some time, and calls at, if not nil, before it stops them.
// It returns the events of their Watch.
func runDuring(t *testing.T, lasts time.Duration, at func([]*poller.Poller), sources ...*during) []transform.Event {
	t.Helper()
	var events []transform.Event
	for _, s := range sources {
		s.begun = time.Now()
	}
	watched(t, newMemory(func(c checkpoint.Commit) { events = append(events, c.Events...) }), lasts, at, sources...)
	return events
}

var errRefusedConnection = &appliance.Error{Method: "GET", Path: "/x", Err: errors.New("connection refused")}

// The outage of the tests.
const outageBegins, outageEnds = time.Minute, 21 * time.Minute

// out returns the result of a poll of an appliance that is down from outageBegins to
// outageEnds.
func out(at time.Duration) (time.Duration, error) {
	if outageBegins <= at && at < outageEnds {
		return 0, errRefusedConnection
	}
	return 0, nil
}

func TestTheEndOfAnOutageIsReportedWithItsLengthAndItsFailedPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sources := []*during{{stream: "detections", ends: out}, {stream: "audit", ends: out}}
		events := runDuring(t, outageEnds+5*time.Minute, nil, sources...)
		var failed int
		ended := time.Hour
		began := time.Hour
		for _, s := range sources {
			for _, at := range s.polls {
				if _, err := out(at); err != nil {
					failed++
					began = min(began, at)
				}
			}
			for _, at := range s.level {
				if at >= outageEnds {
					ended = min(ended, at)
				}
			}
		}
		require.Equal(t, actions(events), "unreachable reachable", "reported")
		var data struct{ Appliance map[string]any }
		require.NoError(t, json.Unmarshal(events[1].Data(), &data))
		since, err := time.Parse(time.RFC3339, fmt.Sprint(data.Appliance["was_unreachable_since"]))
		at := since.Sub(sources[0].begun).Round(time.Millisecond)
		assert.True(t, err == nil && (at == began.Truncate(time.Millisecond) || at == began.Round(time.Millisecond)), "since", at, began, err)
		seconds := (ended - began).Round(time.Second).Seconds()
		assert.True(t, data.Appliance["failures"] == float64(failed) && data.Appliance["unreachable_seconds"] == seconds, data.Appliance, failed, seconds)
		reason, there := data.Appliance["reason"]
		assert.False(t, there, "it can be polled again, and has the reason", reason)
	})
}

func TestTheLagOfAStreamGrowsWhileItsPollsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := &during{stream: "audit", ends: func(at time.Duration) (time.Duration, error) {
			if at >= outageBegins {
				return 24 * time.Hour, nil
			}
			return 0, nil
		}}
		fails := &during{stream: "detections", ends: out}
		healthy := &during{stream: "records/dns", ends: func(time.Duration) (time.Duration, error) { return 0, nil }}
		for _, s := range []*during{hangs, fails, healthy} {
			s.begun = time.Now()
		}
		lag := func(p *poller.Poller) time.Duration {
			progress, ok := p.Progress()
			assert.True(t, ok, "there is no progress")
			return progress.Behind
		}
		runDuring(t, outageBegins+10*time.Minute, func(all []*poller.Poller) {
			now := outageBegins + 10*time.Minute
			for i, s := range []*during{hangs, fails} {
				assert.Equal(t, lag(all[i]), now-s.level[len(s.level)-1], s.stream, "lags")
			}
			assert.Equal(t, lag(all[2]), 0, "a stream that is read lags")
		}, hangs, fails, healthy)
		runDuring(t, outageEnds+5*time.Minute, func(all []*poller.Poller) {
			assert.Equal(t, lag(all[0]), 0, "a stream that is read again lags")
		}, fails)
	})
}

func TestTheLagAfterARestartIsTheAgeOfTheLastAnswer(t *testing.T) {
	const outage = `{"unreachable": true, "since": "1h", "failures": 3, "reason": "down"}`
	for _, c := range []struct {
		name, stream    string
		position, reach string // 1h, 2h and 4h are the times of so long ago
		want            time.Duration
		known           bool
	}{
		{"by the last change of a detection", "detections", `{"mod_time": 2h, "contact": 4h, "swept": 4h}`, "", 2 * time.Hour, true},
		{"by the last sweep over detections", "detections", `{"mod_time": 4h, "contact": 4h, "swept": 2h}`, "", 2 * time.Hour, true},
		{"by the last entry of the audit log", "audit", `{"last": {"id": 7, "time": 2h}, "swept": 4h}`, "", 2 * time.Hour, true},
		{"by the last sweep over an empty audit log", "audit", `{"swept": 2h}`, "", 2 * time.Hour, true},
		{"by the last answer about records", "records/dns", `{"until": 4h, "clock": 2h}`, "", 2 * time.Hour, true},
		{"by an outage that was reported", "detections", `{"mod_time": 2h, "swept": 4h}`, outage, time.Hour, true},
		{"not by an outage that is over", "detections", `{"mod_time": 2h, "swept": 4h}`, `{"unreachable": false}`, 2 * time.Hour, true},
		{"which is not in the future", "records/dns", `{"until": 2h, "clock": 32503680000000}`, "", 0, true},
		{"and not known without one", "audit", `{"swept": 1}`, "", 0, false},
		{"and not known if the stream was never read", "detections", "", outage, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := require.Value(checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{}))(t)
				defer store.Close()
				ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
				times := strings.NewReplacer("1h", ago(time.Hour).Format(time.RFC3339Nano),
					"2h", fmt.Sprint(ago(2*time.Hour).UnixMilli()), "4h", fmt.Sprint(ago(4*time.Hour).UnixMilli()))
				for stream, position := range map[string]string{c.stream: c.position, transform.StreamEvents: c.reach} {
					if position != "" {
						require.NoError(t, store.Commit(t.Context(), checkpoint.Commit{
							Source: checkpoint.Source{Appliance: "hq", Stream: stream}, Position: []byte(times.Replace(position)),
						}))
					}
				}
				answered := require.Value(poller.LastAnswer(t.Context(), store, checkpoint.Source{Appliance: "hq", Stream: c.stream}))(t)
				assert.Equal(t, answered.IsZero(), !c.known, "the last answer is not known")
				if c.known {
					assert.Equal(t, time.Since(answered), c.want, "it was answered before")
				}
			})
		})
	}
	t.Run("as soon as a poll has failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := poller.New(scripted("detections", []error{errRefusedConnection}), poller.Options{
				RetryInitial: time.Second, RetryMax: time.Second, LastAnswer: time.Now().Add(-time.Hour),
				Log: slog.New(slog.DiscardHandler), Metrics: poller.NewMetrics(prometheus.NewRegistry()),
			})
			progress, ok := p.Progress()
			assert.False(t, ok, "there is progress before a poll", progress)
			ctx, stop := context.WithCancel(t.Context())
			go p.Run(ctx)
			time.Sleep(time.Minute)
			progress, ok = p.Progress()
			assert.True(t, ok, "there is no progress")
			assert.Equal(t, progress.Behind, time.Hour+time.Minute, "lag")
			stop()
		})
	})
}
