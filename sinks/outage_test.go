package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// outageTarget counts the events that it accepts and checks their order, without storing
// them.
type outageTarget struct {
	mu       sync.Mutex
	down     bool
	begun    time.Time
	attempts int
	rounds   int           // attempts with time between them
	longest  time.Duration // between two attempts
	shortest time.Duration // between two rounds
	accepted int
	latest   map[string]int // numbers, by key
	disorder []string
}

func (o *outageTarget) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.accepted
}

func (o *outageTarget) Close() error { return nil }

func (o *outageTarget) Send(_ context.Context, events []transform.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if gap := now.Sub(o.begun); gap > 0 && !o.begun.IsZero() {
		o.rounds++
		o.longest = max(o.longest, gap)
		if o.shortest == 0 || gap < o.shortest {
			o.shortest = gap
		}
	}
	o.begun = now
	o.attempts++
	if o.down {
		return errors.New("500 internal server error")
	}
	for _, e := range events {
		number, _ := strconv.Atoi(e.ID)
		if before := o.latest[e.PartitionKey]; number <= before {
			o.disorder = append(o.disorder, fmt.Sprintf("%d after %d", number, before))
		}
		o.latest[e.PartitionKey] = number
		o.accepted++
	}
	return nil
}

// TestSinkDownForAWeekCostsOnlyItsBacklog lets the target of one of three sinks fail every
// request for a week in which events keep arriving.
func TestSinkDownForAWeekCostsOnlyItsBacklog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	synctest.Test(t, func(t *testing.T) {
		const (
			perHour      = 12
			size         = 20000 // of an event: the first day fills what the journal keeps in memory
			retryInitial = 500 * time.Millisecond
			retryMax     = time.Minute
			jitter       = 0.5 // of a wait, more or less
		)
		store, err := checkpoint.Open(path, checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 64 << 20, Retain: time.Hour}})
		require.NoError(t, err)
		defer store.Close()
		targets := map[string]*outageTarget{"down": {down: true}, "well": {}, "also well": {}}
		starts := map[string]checkpoint.Start{}
		for name, target := range targets {
			starts[name], target.latest = checkpoint.Start{}, map[string]int{}
		}
		require.NoError(t, store.Configure(t.Context(), starts))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for name, target := range targets {
			runner := sinks.NewRunner(store, sinks.Options{
				Name: name, Open: func() (sinks.Sink, error) { return target, nil },
				Batch: checkpoint.Batch{MaxEvents: 100, MaxBytes: 1 << 20}, Linger: 50 * time.Millisecond,
				RetryInitial: retryInitial, RetryMax: retryMax, Probe: 30 * time.Second,
				Log: slog.New(slog.DiscardHandler), Metrics: sinks.NewMetrics(prometheus.NewRegistry()),
			})
			running.Go(func() { runner.Run(ctx, ctx) })
		}
		defer running.Wait()
		defer cancel()

		appended := 0
		padding := []byte(`"` + strings.Repeat("x", size) + `"`)
		hour := func() {
			require.NoError(t, appendEventsOf(t.Context(), store, "detections", appended+1, appended+perHour, func(i int) string { return fmt.Sprint("key ", i%5) }, padding))
			appended += perHour
			pass(time.Hour)
		}
		for range 24 {
			hour()
		}
		heap, goroutines := liveHeap(), runtime.NumGoroutine()
		for range 6 * 24 {
			hour()
			for _, name := range []string{"well", "also well"} {
				require.Equal(t, targets[name].count(), appended, name, "which works", "events of")
			}
		}
		grown := int64(liveHeap()) - int64(heap)
		assert.True(t, grown <= 1<<20, "in six days the heap has grown by", grown, "bytes, and the backlog by", 6*24*perHour*size)
		assert.Equal(t, runtime.NumGoroutine(), goroutines, "goroutines after a week", "after a day")

		down := targets["down"]
		down.mu.Lock()
		longest := time.Duration(float64(retryMax) * (1 + jitter))
		assert.True(t, down.longest <= longest, down.longest, "passed without an attempt, want at most", longest)
		shortest := time.Duration(float64(retryInitial) * (1 - jitter))
		assert.True(t, down.shortest >= shortest, "retried after", down.shortest, "want at least", shortest)
		// On average, two rounds are retryMax apart, except for the first few.
		most := int(7*24*time.Hour/retryMax) * 11 / 10
		assert.True(t, down.rounds <= most, down.rounds, "rounds in a week, want at most", most)
		// Each round checks whether only some of the events fail.
		most = down.rounds * 10
		assert.True(t, down.attempts <= most, down.attempts, "attempts in", down.rounds, "rounds")
		down.down = false
		down.mu.Unlock()
		time.Sleep(10 * time.Minute)
		cancel()
		running.Wait()
		for name, target := range targets {
			accepted := target.count()
			assert.True(t, accepted == appended && target.disorder == nil, name, "has", accepted, "events of", appended, "and these out of order", target.disorder)
		}
		stats := require.Value(store.Stats(t.Context()))(t)
		assert.True(t, stats.Sinks["down"].LagEvents <= 0 && len(stats.DeadLetters) == 0 && stats.Sinks["down"].Skipped <= 0, "the state holds", stats)
	})
}

// liveHeap returns the bytes in use after a garbage collection.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // objects with finalizers are collected by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
