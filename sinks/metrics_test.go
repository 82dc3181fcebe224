package sinks_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
)

// TestMetricsAndLog delivers 20 events, of which one is rejected, to a target that fails
// twice and then refuses the credentials twice.
func TestMetricsAndLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		var log bytes.Buffer
		f := newFixtureWith(t, 20, &target{answer: func(attempt int, ids []string) error {
			switch {
			case attempt <= 2:
				return failure.Unavailable(failure.ScopeTarget, "connection refused")
			case attempt <= 4:
				return failure.Errorf(failure.Halted, "401 unauthorized")
			case slices.Contains(ids, "5"):
				return failure.Errorf(failure.Rejected, "400 bad event")
			}
			return nil
		}}, func(o *sinks.Options) {
			o.Metrics, o.Log = sinks.NewMetrics(registry), slog.New(slog.NewTextHandler(&log, nil))
		})
		check := func(delivered, dead, transient, halted, state int) {
			t.Helper()
			text := fmt.Sprintf(`
# HELP ndrbridge_sink_events_total Events by result: delivered (acknowledged; redeliveries count again) or dead (dead-lettered).
# TYPE ndrbridge_sink_events_total counter
ndrbridge_sink_events_total{result="dead",sink="lake"} %d
ndrbridge_sink_events_total{result="delivered",sink="lake"} %d
# HELP ndrbridge_sink_match_errors_total Events for which the sink's match failed; on_error decides what happens to them.
# TYPE ndrbridge_sink_match_errors_total counter
ndrbridge_sink_match_errors_total{sink="lake"} 0
# HELP ndrbridge_sink_retries_total Failed attempts to deliver a batch, by class of failure; each is retried.
# TYPE ndrbridge_sink_retries_total counter
ndrbridge_sink_retries_total{class="halted",sink="lake"} %d
ndrbridge_sink_retries_total{class="rejected",sink="lake"} 0
ndrbridge_sink_retries_total{class="throttled",sink="lake"} 0
ndrbridge_sink_retries_total{class="transient",sink="lake"} %d
# HELP ndrbridge_sink_state State of the sink: 0 running, 1 retrying, 2 halted, 3 paused, 4 stuck.
# TYPE ndrbridge_sink_state gauge
ndrbridge_sink_state{sink="lake"} %d
`, dead, delivered, halted, transient, state)
			if err := testutil.GatherAndCompare(registry, strings.NewReader(text),
				"ndrbridge_sink_events_total", "ndrbridge_sink_retries_total", "ndrbridge_sink_state", "ndrbridge_sink_match_errors_total"); err != nil {
				t.Error(err)
			}
		}
		check(0, 0, 0, 0, 0)
		stop := f.start()
		pass(40 * time.Second)
		check(0, 0, 2, 2, 2)
		pass(time.Minute)
		check(19, 1, 2, 2, 0)
		stop()
		for text, want := range map[string]int{
			`level=WARN msg="sink is retrying; its events are kept" error="connection refused"`:                                 1,
			`level=ERROR msg="sink is halted; its events are kept" error="401 unauthorized"`:                                    1,
			`level=INFO msg="sink delivers again"`:                                                                              1,
			`level=WARN msg="event rejected; it is kept among the dead letters" key=00000000000000000005 error="400 bad event"`: 1,
		} {
			assert.Equal(t, strings.Count(log.String(), text), want, text, "is logged", "times", log.String())
		}
	})
}
