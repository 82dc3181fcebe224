package sinks_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// skips returns the skips that the journal's events report.
func (f *fixture) skips(t *testing.T) []transform.Skipped {
	t.Helper()
	records := require.Value(f.store.Read(t.Context(), 0, checkpoint.Batch{}))(t)
	var all []transform.Skipped
	for _, r := range records {
		if r.Event.Action() != "skipped" {
			continue
		}
		var data struct{ Skipped transform.Skipped }
		require.NoError(t, json.Unmarshal(r.Event.Data(), &data))
		all = append(all, data.Skipped)
	}
	return all
}

func TestLaggingSinkSkipsOldestEventsAndReportsThem(t *testing.T) {
	policy := transform.Encoder{Appliance: transform.Bridge}
	const size = 160 // of an event, about
	for _, c := range []struct {
		name   string
		lag    sinks.Lag
		reason string
		// Bounds of the number of events, of 100 (one per minute), that are accepted once
		// the sink recovers.
		least, most int
	}{
		{"by the age of events", sinks.Lag{Skip: true, MaxAge: 30 * time.Minute, Events: policy}, "lag.max_age (30m0s)", 28, 32},
		{"by their size", sinks.Lag{Skip: true, MaxBytes: 60 * size, Events: policy}, "lag.max_bytes (9600)", 8, 60},
		{"and one that blocks never does", sinks.Lag{MaxAge: 30 * time.Minute, MaxBytes: 60 * size, Events: policy}, "", 100, 100},
	} {
		for _, meanwhile := range []string{"down", "down and retried each second", "paused"} {
			bubble(t, c.name+", while it is "+meanwhile, func(t *testing.T) {
				down := true
				f := newFixtureWith(t, 0, &target{answer: func(int, []string) error {
					if down {
						return errors.New("connection refused")
					}
					return nil
				}}, func(o *sinks.Options) {
					o.Lag = c.lag
					if meanwhile == "down and retried each second" {
						o.RetryMax = time.Second
					}
				})
				stop := f.start()
				if meanwhile == "paused" {
					f.runner.Pause()
				}
				// Between two checks of the lag: what happens at the same time has no order.
				time.Sleep(time.Second)
				for i := 1; i <= 100; i++ {
					f.append(t, i, i)
					time.Sleep(time.Minute)
				}
				synctest.Wait()
				down = false
				f.runner.Resume()
				time.Sleep(2 * time.Minute)
				stop()
				stats := require.Value(f.store.Stats(t.Context()))(t)
				var accepted, skips int
				for _, id := range f.accepted {
					if strings.HasPrefix(id, "sink.skipped-lake-") {
						skips++
					} else {
						accepted++
					}
				}
				assert.True(t, accepted >= c.least, c.least, "to", c.most, accepted, "events accepted")
				assert.True(t, accepted <= c.most, c.least, "to", c.most)
				var events uint64
				for _, s := range f.skips(t) {
					events += s.Events
					assert.True(t, s.Sink == "lake" && strings.Contains(s.Reason, c.reason) && s.Bytes != 0 && !s.Newest.Before(s.Oldest), "skip", s)
				}
				// The events of older skips may have been skipped themselves.
				got := stats.Sinks["lake"].Skipped
				assert.True(t, got == events && int(got)+accepted+skips == int(stats.Last), got, events, accepted, skips, stats.Last)
			})
		}
	}
}

func TestASkipDoesNotEndAHalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newFixtureWith(t, 0, &target{answer: func(int, []string) error { return failure.Errorf(failure.Halted, "401 unauthorized") }}, func(o *sinks.Options) {
			o.Lag = sinks.Lag{Skip: true, MaxAge: 10 * time.Minute, Events: transform.Encoder{Appliance: transform.Bridge}}
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		stop := f.start()
		began := time.Now()
		for i := 1; i <= 60; i++ {
			f.append(t, i, i)
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if s := f.runner.Status(); s.State != sinks.StateHalted || s.Since.Sub(began) > time.Minute || len(f.skips(t)) == 0 {
			t.Errorf("status %+v, %d skips", s, len(f.skips(t)))
		}
		stop()
		assert.NotContains(t, log.String(), "delivers again", "log")
	})
}

func TestCompletedEventsAreCommittedBeforeASkip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newFixtureWith(t, 8, &target{answer: func(_ int, ids []string) error {
			each := make(failure.EventErrors, len(ids))
			for i := range each {
				if each[i] = errors.New("500 internal server error"); ids[i] == "1" {
					// It is not committed yet: whether the target rejects everything is open.
					each[i] = failure.Errorf(failure.Rejected, "400 bad event")
				}
			}
			return each
		}}, func(o *sinks.Options) {
			o.Lag = sinks.Lag{Skip: true, MaxAge: 10 * time.Minute, Events: transform.Encoder{Appliance: transform.Bridge}}
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		stop := f.start()
		pass(11 * time.Minute)
		skips := f.skips(t)
		stop()
		f.expectDead(t, []string{"1"})
		assert.True(t, len(skips) == 1 && skips[0].Events == 7, "skips", skips, "want one of events 2 to 8")
		assert.NotContains(t, log.String(), "could not be applied", "log")
	})
}

func TestSkipsAreFewUnlessTheExcessIsLarge(t *testing.T) {
	policy := transform.Encoder{Appliance: transform.Bridge}
	for name, c := range map[string]struct {
		lag         sinks.Lag
		perSecond   int
		least, most int // skips in ten minutes
	}{
		"by the age of events":             {sinks.Lag{Skip: true, MaxAge: time.Minute, Events: policy}, 1, 8, 11},
		"by their size, a little too much": {sinks.Lag{Skip: true, MaxBytes: 200_000, Events: policy}, 1, 0, 11},
		"by their size, much too much":     {sinks.Lag{Skip: true, MaxBytes: 16_000, Events: policy}, 20, 100, 121},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFixtureWith(t, 0, &target{answer: func(int, []string) error { return errors.New("connection refused") }}, func(o *sinks.Options) { o.Lag = c.lag })
			// A backlog of what the size allows.
			f.append(t, 1, 1200)
			stop := f.start()
			time.Sleep(500 * time.Millisecond)
			for i := range 120 { // of five seconds
				f.append(t, 1201+i*5*c.perSecond, 1200+(i+1)*5*c.perSecond)
				time.Sleep(5 * time.Second)
			}
			stop()
			n := len(f.skips(t))
			assert.True(t, n >= c.least && n <= c.most, n, "skips in ten minutes, want", c.least, "to", c.most)
		})
	}
}
