package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
