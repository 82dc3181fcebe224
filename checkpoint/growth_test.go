package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
)

// TestFileDoesNotGrowWithWhatIsGone writes and removes each part of the state in cycles:
// the space of removed entries is reused.
func TestFileDoesNotGrowWithWhatIsGone(t *testing.T) {
	t.Parallel()
	const cycles, steady = 33, 12
	deadLetters := func(n int) (dead []checkpoint.DeadLetter) {
		for i := range 100 {
			body := newEvent(t, fmt.Sprintf("%d-%d", n, i), time.Unix(1, 0), 2000).Structured()
			dead = append(dead, checkpoint.DeadLetter{Key: fmt.Sprintf("%06d-%d", n, i), Class: "rejected", Time: time.Unix(1, 0), Body: body})
		}
		return dead
	}
	for name, cycle := range map[string]func(ctx context.Context, s *checkpoint.Store, c checkpoint.Commit, n int, at time.Time) error{
		"events that were delivered": func(ctx context.Context, s *checkpoint.Store, c checkpoint.Commit, n int, at time.Time) error {
			for i := range 100 {
				c.Events = append(c.Events, newEvent(t, fmt.Sprintf("%d-%d", n, i), at, 2000))
			}
			err := s.Commit(ctx, c)
			return errors.Join(err, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Expect: uint64(n * 100), Cursor: uint64(n*100 + 100)}))
		},
		"dead letters of a sink that are dropped": func(ctx context.Context, s *checkpoint.Store, c checkpoint.Commit, n int, _ time.Time) error {
			err := s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Dead: deadLetters(n)})
			_, dropErr := s.DropDead(ctx, checkpoint.SinkOwner("a"), nil)
			return errors.Join(err, dropErr)
		},
		"dead letters of a source that are dropped": func(ctx context.Context, s *checkpoint.Store, c checkpoint.Commit, n int, _ time.Time) error {
			c.Dead = deadLetters(n)
			err := s.Commit(ctx, c)
			_, dropErr := s.DropDead(ctx, checkpoint.SourceOwner(source), nil)
			return errors.Join(err, dropErr)
		},
		"redelivered dead letters": func(ctx context.Context, s *checkpoint.Store, c checkpoint.Commit, n int, _ time.Time) error {
			err := s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Dead: deadLetters(n)})
			_, requeueErr := s.Requeue(ctx, "a", nil)
			next, readErr := s.Redeliver(ctx, "a", checkpoint.RedeliveryOffset{}, checkpoint.Batch{})
			if err := errors.Join(err, requeueErr, readErr); err != nil {
				return err
			}
			return s.CommitRedelivery(ctx, checkpoint.RedeliveryCommit{
				Sink: "a", Expect: next.Offset, Last: next.Records[len(next.Records)-1].Offset, Events: len(next.Records),
			})
		},
		"entries remembered and forgotten": func(ctx context.Context, s *checkpoint.Store, c checkpoint.Commit, n int, _ time.Time) error {
			for i := range 1000 {
				c.Remember = append(c.Remember, checkpoint.Entry{Key: fmt.Sprint(n*1000 + i), Value: make([]byte, 200), At: int64(n)})
			}
			c.ForgetBefore = int64(n)
			return s.Commit(ctx, c)
		},
		"a sink's entries remembered and forgotten": func(ctx context.Context, s *checkpoint.Store, c checkpoint.Commit, n int, _ time.Time) error {
			var entries []checkpoint.Entry
			for i := range 1000 {
				entries = append(entries, checkpoint.Entry{Key: fmt.Sprint(n*1000 + i), Value: make([]byte, 200), At: int64(n)})
			}
			return s.RememberSink(ctx, "a", entries, int64(n))
		},
		"ticket commands that are done": func(ctx context.Context, s *checkpoint.Store, c checkpoint.Commit, n int, at time.Time) error {
			var commands []checkpoint.Command
			for i := range 50 {
				commands = append(commands, checkpoint.Command{
					Key: fmt.Sprintf("%01000d-%d", n, i), Appliance: "hq", Subject: fmt.Sprintf("%01000d", n),
					Body: make([]byte, 1000), Accepted: at,
				})
			}
			accepted, err := s.Accept(ctx, commands)
			for _, a := range accepted {
				err = errors.Join(err, s.Finish(ctx, checkpoint.Outcome{ID: a.ID, State: checkpoint.CommandApplied, Done: at}))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Int64
			now.Store(time.Now().UnixMilli())
			s := open(t, statePath(t), checkpoint.Options{Now: func() time.Time { return time.UnixMilli(now.Load()) }})
			ctx := t.Context()
			require.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"a": {}}))
			var used int64 // by the entries and free pages
			var position []byte
			for n := range cycles {
				c := checkpoint.Commit{Source: source, Expect: position, Position: fmt.Append(nil, n)}
				// Commands that are done are not kept for longer than a cycle.
				at := time.UnixMilli(now.Add((8 * 24 * time.Hour).Milliseconds()))
				require.NoError(t, cycle(ctx, s, c, n, at))
				var err error
				position, err = s.Position(ctx, source)
				require.NoError(t, err)
				if n%4 != 0 {
					continue
				}
				size, err := s.Backup(ctx, io.Discard) // the copy leaves out the space reserved for growth
				require.NoError(t, err)
				if n == steady {
					used = size
				} else if n > steady && size > used+used/2 {
					t.Fatalf("cycle %d: %d bytes are used, %d were in cycle %d", n, size, used, steady)
				}
			}
		})
	}
}
