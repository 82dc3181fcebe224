package webhook_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// deliver journals the events and runs a runner until all are acknowledged. It returns
// the ids of the dead letters, and how often the sink was opened.
func deliver(t *testing.T, o webhook.Options, batch checkpoint.Batch, events []transform.Event) (dead []string, opened int) {
	t.Helper()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{
		Limits: checkpoint.Limits{MaxBytes: 64 << 20, Retain: time.Hour},
	})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.Configure(t.Context(), map[string]checkpoint.Start{"soc": {}}))
	err = store.Commit(t.Context(), checkpoint.Commit{
		Source: checkpoint.Source{Appliance: "hq", Stream: "detections"}, Position: []byte("1"), Events: events,
	})
	require.NoError(t, err)
	runner := sinks.NewRunner(store, sinks.Options{
		Name: "soc",
		Open: func() (sinks.Sink, error) {
			opened++
			return webhook.New(o)
		},
		Batch:        batch,
		RetryInitial: time.Millisecond, RetryMax: time.Millisecond, Probe: time.Millisecond,
		Log: slog.New(slog.DiscardHandler), Metrics: sinks.NewMetrics(prometheus.NewRegistry()),
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var running sync.WaitGroup
	running.Go(func() { runner.Run(ctx, context.WithoutCancel(ctx)) })
	for stats := (checkpoint.SinkStats{}); stats.Cursor < uint64(len(events)) || stats.Parked > 0; time.Sleep(time.Millisecond) {
		all, err := store.Stats(ctx)
		if err != nil {
			t.Errorf("not everything is acknowledged: %+v, sink %+v", stats, runner.Status())
			break
		}
		stats = all.Sinks["soc"]
	}
	cancel()
	running.Wait()
	deadLetters := require.Value(store.Dead(t.Context(), checkpoint.SinkOwner("soc"), "", 1000))(t)
	for _, deadLetter := range deadLetters {
		e := require.Value(transform.Parse(deadLetter.Body))(t)
		dead = append(dead, e.ID)
	}
	return dead, opened
}

// TestDeliveryForEachStatus sends an event for every status, which is the answer to its
// first request. Each is followed by an event that is accepted at once.
func TestDeliveryForEachStatus(t *testing.T) {
	halts := func(status int) bool {
		return status/100 == 3 || slices.Contains([]int{401, 402, 403, 404, 405, 407, 410, 415, 421, 426, 501, 505, 511}, status)
	}
	deadLettered := func(status int) bool {
		return status/100 == 4 && !halts(status) && !slices.Contains([]int{408, 425, 429}, status)
	}
	var events []transform.Event
	add := func(id string) {
		e, err := transform.New(transform.Attributes{
			ID: id, Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created", PartitionKey: id, RecordedTime: time.Now(),
		}, []byte(`{"detection":{}}`))
		require.NoError(t, err)
		events = append(events, e)
	}
	status := map[string]int{}
	for code := 200; code < 600; code++ {
		id := fmt.Sprint("status ", code)
		status[id] = code
		add(id)
		add(fmt.Sprint("accepted after ", code))
	}
	for _, concurrency := range []int{1, 32} {
		t.Run(fmt.Sprintf("%d in flight", concurrency), func(t *testing.T) {
			var mu sync.Mutex
			came := map[string]int{}
			w := newWatcher(t, func(ids []string) int {
				mu.Lock()
				defer mu.Unlock()
				if came[ids[0]]++; came[ids[0]] == 1 && status[ids[0]] != 0 {
					return status[ids[0]]
				}
				return http.StatusNoContent
			})
			dead, opened := deliver(t, webhook.Options{URL: w.url, Concurrency: concurrency}, checkpoint.Batch{MaxEvents: 100, MaxBytes: 1 << 20}, events)
			halted := 0
			for id, code := range status {
				want := 2
				if code/100 == 2 || deadLettered(code) {
					want = 1
				}
				assert.Equal(t, came[id], want, code, "requests")
				if slices.Contains(dead, id) != deadLettered(code) {
					t.Errorf("%d: dead: %v", code, !deadLettered(code))
				}
				if halts(code) {
					halted++
				}
			}
			assert.True(t, opened <= 1+halted && (concurrency != 1 || opened == 1+halted), "the sink was opened", opened, "times for", halted, "halts")
			_, _, taken := w.counts()
			assert.Equal(t, len(taken)+len(dead), len(events), len(taken), "taken and", len(dead), "dead of", "events")
		})
	}
}

func TestALargeBatchIsHalvedUntilItFits(t *testing.T) {
	const limit = 64 << 10
	events := webhook.PlainEvents(t, 201, 20, 8<<10)
	events[100] = sinktest.Events(1, 1, limit+1)[0]
	for _, concurrency := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d in flight", concurrency), func(t *testing.T) {
			w := newWatcher(t, func([]string) int { return http.StatusOK })
			w.limit = limit
			o := webhook.Options{URL: w.url, Mode: transform.Batch, Concurrency: concurrency}
			dead, _ := deliver(t, o, checkpoint.Batch{MaxEvents: 500, MaxBytes: 4 << 20}, events)
			assert.True(t, len(dead) == 1 && dead[0] == events[100].ID, "dead", dead)
			_, _, taken := w.counts()
			require.Equal(t, len(taken), 200, "events taken")
			last := map[string]int{}
			for i, e := range events {
				if i == 100 {
					continue
				}
				at := slices.Index(taken, e.ID)
				before, ok := last[e.PartitionKey]
				require.True(t, (!ok || at > before) && at >= 0, "event", i, "is out of order or not there")
				last[e.PartitionKey] = at
			}
		})
	}
}
