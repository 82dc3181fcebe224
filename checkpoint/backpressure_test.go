package checkpoint_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
)

const mebi = 1 << 20

func TestABacklogDoesNotOutrunTheFastestSinkThatDelivers(t *testing.T) {
	const pages, perPage, size = 40, 100, 20_000 // of 2 MB
	for name, test := range map[string]struct {
		every time.Duration // between two batches of half a page; 0: never
		most  int64         // the most bytes that may wait
		least int64         // bytes that must wait at some time
		took  time.Duration // of the source, at most
	}{
		"a sink that keeps up bounds the backlog": {every: 10 * time.Millisecond, most: 37 * mebi, took: time.Second},
		"a slow sink delays a source briefly":     {every: 200 * time.Millisecond, most: 80 * mebi, least: 40 * mebi, took: 10 * time.Second},
		"a sink that is down delays nothing":      {most: 80 * mebi, least: 75 * mebi},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, statePath(t), checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 1 << 30}})
				ctx, cancel := context.WithCancel(t.Context())
				var delivering sync.WaitGroup
				defer delivering.Wait()
				defer cancel()
				require.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"fast": {}, "down": {Now: true}}))
				delivering.Go(func() {
					for cursor := uint64(0); test.every > 0 && ctx.Err() == nil; time.Sleep(test.every) {
						_ = s.Wait(ctx, cursor)
						records, err := s.Read(ctx, cursor, checkpoint.Batch{MaxEvents: perPage / 2})
						if err != nil || len(records) == 0 {
							continue
						}
						next := records[len(records)-1].Seq
						if s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "fast", Expect: cursor, Cursor: next}) == nil {
							cursor = next
						}
					}
				})

				c := checkpoint.Commit{Source: source}
				for i := range perPage {
					c.Events = append(c.Events, newEvent(t, fmt.Sprint(i), time.Now(), size))
				}
				var most int64
				begun := time.Now()
				for n := range pages {
					c.Expect, c.Position = c.Position, fmt.Append(nil, n)
					require.NoError(t, s.Commit(ctx, c))
					stats, err := s.Stats(ctx)
					require.NoError(t, err)
					most = max(most, stats.Sinks["fast"].LagBytes)
				}
				if most > test.most || most < test.least {
					t.Errorf("%d MiB waited for the sink, want %d to %d", most/mebi, test.least/mebi, test.most/mebi)
				}
				if took := time.Since(begun); took > test.took {
					t.Errorf("the source took %s, want %s at most", took, test.took)
				}
			})
		})
	}
}
