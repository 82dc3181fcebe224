package sinks_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
)

func TestPausedSinkDeliversNothingUntilResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		f := newFixtureWith(t, 3, &target{answer: acceptAll}, func(o *sinks.Options) { o.Metrics = sinks.NewMetrics(registry) })
		metric := func(want int) {
			t.Helper()
			if err := testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP ndrbridge_sink_state State of the sink: 0 running, 1 retrying, 2 halted, 3 paused, 4 stuck.
# TYPE ndrbridge_sink_state gauge
ndrbridge_sink_state{sink="lake"} %d
`, want)), "ndrbridge_sink_state"); err != nil {
				t.Error(err)
			}
		}
		stop := f.start()
		time.Sleep(time.Second)
		f.runner.Pause()
		metric(3)
		since := time.Now()
		time.Sleep(time.Second)
		f.runner.Pause()
		f.append(t, 4, 6)
		f.replay(t)
		pass(time.Hour)
		// The batch that waited for events was in flight: some may be accepted.
		accepted := len(f.accepted)
		assert.True(t, accepted <= 6, "accepted", f.accepted, "while it was paused")
		f.append(t, 7, 9)
		pass(time.Hour)
		assert.False(t, slices.Contains(f.accepted, "7"), "accepted", f.accepted, "while it was paused")
		s := f.runner.Status()
		assert.True(t, s.State == sinks.StatePaused && s.Since.Equal(since), "status", s, "want paused since", since)
		f.runner.Resume()
		metric(0)
		time.Sleep(time.Second)
		stop()
		want := append(numbers(1, 9), "1 again 1", "2 again 1", "3 again 1")
		f.expectInAnyOrder(t, want)
		f.expectState(t, sinks.StateRunning)
	})
}

func TestSinkStartsPausedIfItWasPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		since := time.Now().Add(-time.Hour)
		f := newFixtureWith(t, 3, &target{answer: acceptAll}, func(o *sinks.Options) { o.PausedSince = since })
		stop := f.start()
		pass(time.Hour)
		s := f.runner.Status()
		assert.True(t, s.State == sinks.StatePaused && s.Since.Equal(since) && len(f.accepted) == 0, "status", s, "accepted", f.accepted)
		stop()
	})
}

func TestResumeRetriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, &target{answer: func(attempt int, _ []string) error {
			if attempt == 1 {
				return failure.Errorf(failure.Halted, "401 unauthorized")
			}
			return nil
		}})
		stop := f.start()
		time.Sleep(time.Second)
		f.runner.Resume()
		time.Sleep(time.Millisecond)
		stop()
		f.expectAccepted(t, numbers(1, 3))
	})
}

func TestStatusHasTheNextAttemptAndTheLastDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		f := newFixture(t, 3, &target{answer: until(&up, failure.Errorf(failure.Halted, "401 unauthorized"))})
		begun := time.Now()
		stop := f.start()
		time.Sleep(time.Second)
		s := f.runner.Status()
		assert.True(t, s.State == sinks.StateHalted && s.NextAttempt.After(time.Now()) && s.LastDelivery.IsZero(), "while it is halted", s)
		up.Store(true)
		time.Sleep(time.Until(s.NextAttempt) + time.Millisecond)
		if now := f.runner.Status(); !now.NextAttempt.IsZero() || !now.LastDelivery.Equal(s.NextAttempt) {
			t.Errorf("%+v, want a delivery at %s", now, s.NextAttempt.Sub(begun))
		}
		f.runner.Pause()
		now := f.runner.Status()
		assert.True(t, now.NextAttempt.IsZero() && now.LastDelivery.Equal(s.NextAttempt), "while it is paused", now)
		stop()
	})
}

func TestSinkHaltsWhileItsDeadLettersAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 8, &target{answer: answerEach(func(number int) error {
			if number == 2 || number == 4 {
				return failure.Errorf(failure.Rejected, "400 bad event")
			}
			return nil
		})})
		f.store.SetLimits(checkpoint.Limits{DeadBytes: 300})
		stop := f.start()
		pass(time.Minute)
		f.expectState(t, sinks.StateHalted, "dead_letters.max_bytes")
		f.store.SetLimits(checkpoint.Limits{DeadBytes: 30000})
		time.Sleep(time.Minute)
		stop()
		if dead := f.dead(t); !slices.Equal(dead, []string{"2", "4"}) || f.cursor(t) != 8 || !slices.Equal(f.accepted, numbers(1, 8, "2", "4")) {
			t.Errorf("dead letters %v, cursor %d, accepted %v", dead, f.cursor(t), f.accepted)
		}
	})
}
