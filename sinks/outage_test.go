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
	"ndrbridge/transform"
)

// outageTarget keeps no more of what it got than it takes to tell whether it was
// in order.
type outageTarget struct {
	mu       sync.Mutex
	down     bool
	begun    time.Time
	attempts int
	rounds   int           // attempts with time between them
	longest  time.Duration // between two attempts
	shortest time.Duration // between two rounds
	taken    int
	latest   map[string]int // numbers, by key
	disorder []string
}

func (o *outageTarget) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken
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
		o.taken++
	}
	return nil
}

// TestASinkThatIsDownForAWeekCostsNothingButItsEventsRoom lets one of three sinks
// answer every request with 500 for a week in which events go on to come.
func TestASinkThatIsDownForAWeekCostsNothingButItsEventsRoom(t *testing.T) {
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
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		targets := map[string]*outageTarget{"down": {down: true}, "well": {}, "also well": {}}
		starts := map[string]checkpoint.Start{}
		for name, target := range targets {
			starts[name], target.latest = checkpoint.Start{}, map[string]int{}
		}
		if err := store.Configure(t.Context(), starts); err != nil {
			t.Fatal(err)
		}
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
			if err := appendEventsOf(t.Context(), store, "detections", appended+1, appended+perHour, func(i int) string { return fmt.Sprint("key ", i%5) }, padding); err != nil {
				t.Fatal(err)
			}
			appended += perHour
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		for range 24 {
			hour()
		}
		heap, goroutines := liveHeap(), runtime.NumGoroutine()
		for range 6 * 24 {
			hour()
			for _, name := range []string{"well", "also well"} {
				if taken := targets[name].count(); taken != appended {
					t.Fatalf("%s, which works, has %d events of %d", name, taken, appended)
				}
			}
		}
		if grown := int64(liveHeap()) - int64(heap); grown > 1<<20 {
			t.Errorf("in six days the heap has grown by %d bytes, and the backlog by %d", grown, 6*24*perHour*size)
		}
		if now := runtime.NumGoroutine(); now != goroutines {
			t.Errorf("%d goroutines after a week, and %d after a day", now, goroutines)
		}

		down := targets["down"]
		down.mu.Lock()
		if longest := time.Duration(float64(retryMax) * (1 + jitter)); down.longest > longest {
			t.Errorf("%s went by without an attempt, and %s may at most", down.longest, longest)
		}
		if shortest := time.Duration(float64(retryInitial) * (1 - jitter)); down.shortest < shortest {
			t.Errorf("it was tried again after %s, and %s must go by at least", down.shortest, shortest)
		}
		// On the mean retryMax lies between two rounds, but for the first few.
		if most := int(7*24*time.Hour/retryMax) * 11 / 10; down.rounds > most {
			t.Errorf("tried at %d times in a week, and %d are due at most", down.rounds, most)
		}
		// One round in sixty finds out whether it is single events that fail.
		if most := down.rounds * 3 / 2; down.attempts > most {
			t.Errorf("%d attempts in %d rounds", down.attempts, down.rounds)
		}
		down.down = false
		down.mu.Unlock()
		time.Sleep(10 * time.Minute)
		cancel()
		running.Wait()
		for name, target := range targets {
			if taken := target.count(); taken != appended || target.disorder != nil {
				t.Errorf("%s has %d events of %d, and these out of order: %v", name, taken, appended, target.disorder)
			}
		}
		stats, err := store.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if stats.Sinks["down"].LagEvents > 0 || len(stats.DeadLetters) > 0 || stats.Sinks["down"].Skipped > 0 {
			t.Errorf("the state holds %+v", stats)
		}
	})
}

// liveHeap is what is in use when what is not was collected.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what has a finalizer goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestATargetThatGoesDownIsNotTriedWithoutPauseForWhatWaitsBehindAPoisonedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hourly = 2000 // attempts: one round a minute, each divided into single events
		down, before := false, 0
		f := newFixture(t, 40, &target{answer: func(attempt int, ids []string) error {
			switch {
			case down && attempt > before+hourly: // or time would stand still for ever
				return &sinks.Error{Class: sinks.Throttled, RetryAfter: 24 * time.Hour, Err: errors.New("429 too many requests")}
			case down:
				return errors.New("connection refused")
			}
			return failsOn("2")(attempt, ids)
		}})
		stop := f.start()
		time.Sleep(20 * time.Second)
		f.mu.Lock()
		down, before = true, f.attempts
		f.mu.Unlock()
		f.append(t, 41, 140)
		time.Sleep(time.Hour)
		stop()
		if attempts := f.attempts - before; attempts > hourly {
			t.Errorf("%d attempts in an hour in which it was down", attempts)
		}
	})
}
