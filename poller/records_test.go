package poller_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func gathered(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families := require.Value(registry.Gather())(t)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

func TestMetricsOfRecordsFollowTheNamingRules(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := atMinute(t, 60, func(w *recordWorld) {
		w.options.Metrics = poller.NewMetrics(registry)
		w.warnings = []string{"2 nodes did not answer"}
	})
	w.mustPoll()
	families := require.Value(registry.Gather())(t)
	assert.Empty(t, require.Value(promlint.NewWithMetricFamilies(families).Lint())(t))
	assert.True(t, gathered(t, registry, "ndrbridge_source_warnings_total") != 0, "no warning was counted")
}

func TestWarningsThatDifferAtEveryAnswerAreLoggedOnceAMinute(t *testing.T) {
	var said bytes.Buffer
	w := atMinute(t, 60, func(w *recordWorld) {
		w.options.Log = slog.New(slog.NewTextHandler(&said, nil))
	})
	before := w.requests
	w.between = func() { w.warnings = []string{fmt.Sprintf("query %d was slow", w.requests)} }
	for range 100 {
		w.mustPoll()
	}
	n, m := strings.Count(said.String(), "was slow"), w.requests-before
	assert.True(t, n == 1 && m >= 100, n, "lines for", m, "answers within a minute")
}

func TestARecordThatIsTooLargeIsADeadLetterOnce(t *testing.T) {
	for _, store := range []poller.RecordStore{poller.StoreOwn, poller.StoreThirdParty} {
		for index := range 12 {
			t.Run(fmt.Sprintf("%s, record %d", store, index), func(t *testing.T) {
				w := atMinute(t, 12, func(w *recordWorld) { w.options.Store = store })
				w.rows[index].huge = true
				dead := 0
				w.state.journal = func(c checkpoint.Commit) { dead += len(c.Dead); w.journal(c) }
				w.mustPoll()
				w.restart()
				w.noTotals = true // looks again at every window
				w.drain()
				w.judge(true)
				if _, there := w.state.dead[w.rows[index].id]; !there || dead != 1 {
					t.Errorf("%d dead letters: %v", dead, w.state.dead)
				}
			})
		}
	}
}

func TestProgressOfABacklog(t *testing.T) {
	var said bytes.Buffer
	w := newRecordWorld(t)
	w.options.Start = func(now time.Time) time.Time { return now.Add(-time.Hour) }
	w.options.Log = slog.New(slog.NewTextHandler(&said, nil))
	w.options.MaxWindowRecords = 20
	for i := range 3600 {
		w.store((w.clock - 3600_000 + int64(i)*1000) * 1000)
	}
	w.restart()
	_, ok := w.source.Progress()
	assert.False(t, ok, "there is progress before the first window")
	w.between = func() { w.pass(time.Second) }
	var half poller.Progress
	for {
		next := require.Value(w.poll())(t)
		p, ok := w.source.Progress()
		require.True(t, ok, "progress", p)
		require.True(t, p.At.UnixMilli() <= w.clock, "progress", p)
		if half.At.IsZero() && p.Behind < 30*time.Minute {
			half = p
		}
		if next == poller.Idle {
			break
		}
	}
	assert.True(t, half.EventsPerSecond > 0 && half.SpeedUp > 1 && half.Left > 0, "halfway it", half)
	p, _ := w.source.Progress()
	assert.True(t, p.Behind == 0 && p.Left == 0, "in the end it", p)
	assert.Contains(t, said.String(), "reading a backlog", "the backlog was not logged")
}

func BenchmarkABacklogOfRecords(b *testing.B) {
	w := newRecordWorld(b)
	w.options.Start = func(now time.Time) time.Time { return now.Add(-2 * time.Hour) }
	w.options.PageSize, w.options.MaxWindowRecords, w.options.Window = 1000, 20_000, time.Minute
	const records = 100_000
	for i := range records {
		w.store((w.clock-7200_000)*1000 + int64(i)*36_000)
	}
	w.snapshot = true
	b.ReportAllocs()
	for b.Loop() {
		var events int
		var heap uint64
		w.state = newMemory(func(c checkpoint.Commit) {
			events += len(c.Events)
			if events%20_000 == 0 && len(c.Events) > 0 {
				runtime.GC()
				var s runtime.MemStats
				runtime.ReadMemStats(&s)
				heap = max(heap, s.HeapInuse)
			}
		})
		w.restart()
		w.mustPoll()
		require.Equal(b, events, records, "events")
		b.ReportMetric(float64(heap)/(1<<20), "MiB-heap")
	}
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
