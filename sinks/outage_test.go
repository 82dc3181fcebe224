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
				if accepted := targets[name].count(); accepted != appended {
					t.Fatalf("%s, which works, has %d events of %d", name, accepted, appended)
				}
			}
		}
		if grown := int64(liveHeap()) - int64(heap); grown > 1<<20 {
			t.Errorf("in six days the heap has grown by %d bytes, and the backlog by %d", grown, 6*24*perHour*size)
		}
		if now := runtime.NumGoroutine(); now != goroutines {
			t.Errorf("%d goroutines after a week, %d after a day", now, goroutines)
		}

		down := targets["down"]
		down.mu.Lock()
		if longest := time.Duration(float64(retryMax) * (1 + jitter)); down.longest > longest {
			t.Errorf("%s passed without an attempt, want at most %s", down.longest, longest)
		}
		if shortest := time.Duration(float64(retryInitial) * (1 - jitter)); down.shortest < shortest {
			t.Errorf("retried after %s, want at least %s", down.shortest, shortest)
		}
		// On average, two rounds are retryMax apart, except for the first few.
		if most := int(7*24*time.Hour/retryMax) * 11 / 10; down.rounds > most {
			t.Errorf("%d rounds in a week, want at most %d", down.rounds, most)
		}
		// Each round checks whether only some of the events fail.
		if most := down.rounds * 10; down.attempts > most {
			t.Errorf("%d attempts in %d rounds", down.attempts, down.rounds)
		}
		down.down = false
		down.mu.Unlock()
		time.Sleep(10 * time.Minute)
		cancel()
		running.Wait()
		for name, target := range targets {
			if accepted := target.count(); accepted != appended || target.disorder != nil {
				t.Errorf("%s has %d events of %d, and these out of order: %v", name, accepted, appended, target.disorder)
			}
		}
		stats := require.Value(store.Stats(t.Context()))(t)
		if stats.Sinks["down"].LagEvents > 0 || len(stats.DeadLetters) > 0 || stats.Sinks["down"].Skipped > 0 {
			t.Errorf("the state holds %+v", stats)
		}
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
