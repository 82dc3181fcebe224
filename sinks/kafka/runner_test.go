package kafka

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

// TestABrokerThatIsDownHoldsUpOnlyItsPartitions lets one of three brokers refuse everything
// while 6,000 events are delivered.
func TestABrokerThatIsDownHoldsUpOnlyItsPartitions(t *testing.T) {
	c := startCluster(t, kfake.NumBrokers(3))
	for p := range int32(3) { // one partition on each
		require.NoError(t, c.MoveTopicPartition("ndr.detections", p, p))
	}
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.Configure(t.Context(), map[string]checkpoint.Start{"lake": {}}))
	const total = 6000
	events := sinktest.Events(total, 2000, 500)
	err = store.Commit(t.Context(), checkpoint.Commit{
		Source: checkpoint.Source{Appliance: "hq", Stream: "detections"}, Position: []byte("1"), Events: events,
	})
	require.NoError(t, err)
	down := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Nodes: []int32{1}, Err: kerr.NotEnoughReplicas, Count: -1})
	runner := sinks.NewRunner(store, sinks.Options{
		Name: "lake", Open: func() (sinks.Sink, error) {
			return New(Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}"})
		},
		Batch:        checkpoint.Batch{MaxEvents: 100, MaxBytes: 1 << 20},
		RetryInitial: 5 * time.Millisecond, RetryMax: 50 * time.Millisecond, Probe: time.Second,
		Log: slog.New(slog.DiscardHandler), Metrics: sinks.NewMetrics(prometheus.NewRegistry()),
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var running sync.WaitGroup
	running.Go(func() { runner.Run(ctx, ctx) })
	defer running.Wait()
	defer cancel()

	// until waits until the sink's statistics are as wanted.
	until := func(is func(checkpoint.SinkStats) bool) checkpoint.SinkStats {
		for {
			stats, err := store.Stats(ctx)
			if err != nil {
				t.Fatalf("it did not come so far: %+v, %v", runner.Status(), err)
			}
			if of := stats.Sinks["lake"]; is(of) {
				return of
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	stored := func() (n int) {
		for _, p := range c.PartitionInfos("ndr.detections") {
			n += int(p.HighWatermark)
		}
		return n
	}
	waiting := until(func(s checkpoint.SinkStats) bool { return s.Cursor == total })
	if got := stored(); waiting.Parked == 0 || got+int(waiting.Parked) != total {
		t.Errorf("while a broker is down, %d events are stored and %d are parked, want %d in all", got, waiting.Parked, total)
	}
	for failures := down.Hits(); down.Hits() < failures+40; { // it stays down
		time.Sleep(5 * time.Millisecond)
		if ctx.Err() != nil {
			t.Fatal("parked events are not tried again")
		}
	}
	down.Remove()
	until(func(s checkpoint.SinkStats) bool { return s.Parked == 0 })
	stats, err := store.Stats(t.Context())
	if got := stored(); err != nil || got != total || len(stats.DeadLetters) > 0 {
		t.Errorf("%d of %d events are stored, the dead letters are %v, %v", got, total, stats.DeadLetters, err)
	}
}
