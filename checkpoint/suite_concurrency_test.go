package checkpoint_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
)

// testConcurrency lets sources fill a journal that is far too small for them,
// while sinks of different speed empty it and somebody watches. Every sink must
// see every event once, in the order of its source.
func (b backend) testConcurrency(t *testing.T) {
	const sources, commits, perCommit = 3, 30, 7
	const total = sources * commits * perCommit
	s := b.state(t, checkpoint.Limits{MaxBytes: 20 << 10})
	s.clock.advance(time.Hour) // committed events are trimmed at once
	sinks := map[string]int{"fast": 100, "slow": 3}
	s.configureSinks("fast", "slow")
	ctx := t.Context()

	var running sync.WaitGroup
	for n := range sources {
		running.Go(func() {
			source := checkpoint.Source{Appliance: "hq", Stream: fmt.Sprintf("records/%d", n)}
			var position []byte
			for i := range commits {
				c := checkpoint.Commit{Source: source, Expect: position, Position: fmt.Append(nil, i)}
				for j := range perCommit {
					c.Events = append(c.Events, event(fmt.Sprintf("%d-%d", n, i*perCommit+j), noon, 400))
				}
				if err := s.Commit(ctx, c); err != nil {
					t.Errorf("commit: %v", err)
					return
				}
				stale := c
				assert.ErrorIs(t, s.Commit(ctx, stale), checkpoint.ErrFenced, "the same commit again")
				position = c.Position
			}
		})
	}
	for sink, batch := range sinks {
		running.Go(func() {
			next := map[string]int{}
			cursor := uint64(0)
			for cursor < total {
				if err := s.Wait(ctx, cursor); err != nil {
					t.Errorf("%s: wait: %v", sink, err)
					return
				}
				records, err := s.Read(ctx, cursor, checkpoint.Batch{MaxEvents: batch})
				if err != nil || len(records) == 0 {
					t.Errorf("%s: %d events read, %v", sink, len(records), err)
					return
				}
				for i, r := range records {
					var source, n int
					_, err := fmt.Sscanf(r.Event.ID, "%d-%d", &source, &n)
					assert.NoError(t, err, sink, "event", r.Event.ID)
					key := fmt.Sprint(source)
					if r.Seq != cursor+1+uint64(i) || n != next[key] {
						t.Errorf("%s: event %d is %s, want number %d of its source", sink, r.Seq, r.Event.ID, next[key])
						return
					}
					next[key]++
				}
				to := cursor + uint64(len(records))
				if err := s.CommitDelivery(ctx, checkpoint.Delivery{Sink: sink, Expect: cursor, Cursor: to}); err != nil {
					t.Errorf("%s: %v", sink, err)
					return
				}
				cursor = to
			}
		})
	}
	watching := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-watching:
				return
			default:
			}
			stats, err := s.Stats(ctx)
			if err != nil {
				t.Errorf("stats: %v", err)
				return
			}
			for sink, of := range stats.Sinks {
				assert.True(t, of.Cursor+1 >= stats.First, "event", of.Cursor+1, "was trimmed before", sink, "committed it")
			}
		}
	}()
	running.Wait()
	close(watching)
	<-watched
	s.until("all is trimmed", func() bool { return s.stats().Events == 0 })
	assert.Equal(t, s.stats().Last, total, "the journal ended at")
}
