package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// follow runs a follower until the test ends or stop is called, which returns its error.
func follow(t *testing.T, s replicated.Stream, r replicated.Replica) (f *replicated.Follower, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f = replicated.NewFollower(s, r, replicated.FollowerOptions{Clock: replicatedtest.NewClock(1)})
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	return f, func() error {
		cancel()
		return <-ended
	}
}

// end returns the error of a follower that ends by itself.
func end(t *testing.T, s replicated.Stream, r replicated.Replica) error {
	t.Helper()
	return replicated.NewFollower(s, r, replicated.FollowerOptions{Clock: replicatedtest.NewClock(1)}).Run(t.Context())
}

func TestFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{MaxData: 20})
		r := &memory{}
		f, stop := follow(t, servers.Stream("b", 1), r)
		log := take(t, servers.Stream("a", 1), 0, options(t.Context(), "a"))
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprintf("%d:%s", i+1, strings.Repeat("x", i)))
			appendRecord(t, log, want[i])
			appendRecord(t, log, "")
		}
		require.NoError(t, f.CatchUp(t.Context(), log.Offset()))
		if !slices.Equal(r.state(), want) || r.Offset() != log.Offset() {
			t.Errorf("%d records up to %d, want %d up to %d", len(r.state()), r.Offset(), len(want), log.Offset())
		}
		time.Sleep(time.Minute)
		s := f.Status()
		assert.True(t, s.Quiet.Round(time.Second) == time.Minute && s.Owner == "a" && s.Epoch == 1 && s.Term == 6*time.Second && !s.Released, s)
		require.NoError(t, log.Release(t.Context()))
		_, err := log.Append([]byte("x"))
		assert.Error(t, err, "a record was appended after the release")
		time.Sleep(time.Second)
		s = f.Status()
		assert.True(t, s.Released && s.Quiet == time.Second && s.Applied == log.Offset() && s.Seen == s.Applied && s.Last == s.Applied, s)
		require.ErrorIs(t, stop(), context.Canceled)

		// It begins again where it was, and knows whose the log is.
		f, stop = follow(t, servers.Stream("b", 1), r)
		synctest.Wait()
		s = f.Status()
		assert.True(t, s.Owner == "a" && s.Term == 6*time.Second && s.Released && s.Applied == log.Offset(), "status", s, "want that of before")
		require.ErrorIs(t, stop(), context.Canceled)
	})
}

// TestQuiet checks that time counts as quiet only while the leader answers.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		f, stop := follow(t, servers.Stream("b", 1), &memory{})
		log := take(t, servers.Stream("a", 1), 0, options(t.Context(), "a"))
		wantQuiet := func(least, most time.Duration) {
			t.Helper()
			s := f.Status()
			require.True(t, s.Quiet >= least && s.Quiet <= most, "quiet for", s.Quiet, least, "to", most)
		}
		time.Sleep(10 * time.Second)
		wantQuiet(10*time.Second, 10*time.Second)
		servers.Cut("b", true)
		time.Sleep(10 * time.Second)
		wantQuiet(0, 0)
		servers.Cut("b", false)
		time.Sleep(10 * time.Second)
		wantQuiet(8*time.Second, 10*time.Second)
		appendRecord(t, log, "")
		time.Sleep(time.Second)
		wantQuiet(time.Second, time.Second)
		servers.SetFaults(replicatedtest.Faults{FailReads: 1})
		time.Sleep(3 * time.Second)
		wantQuiet(0, 0)
		require.ErrorIs(t, stop(), context.Canceled)
	})
}

func TestFollowerEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(t *testing.T, servers *replicatedtest.Servers, log *replicated.Log)
		// applied is how many of the ten records the replica has when the follower begins.
		applied int
		want    error
		keeps   int // records that it has at the end
	}{
		{"a message was lost", func(_ *testing.T, s *replicatedtest.Servers, _ *replicated.Log) { s.Lose(1, 5) }, 0, replicated.ErrDiverged, 3},
		{"the log was purged behind the replica", func(t *testing.T, s *replicatedtest.Servers, _ *replicated.Log) {
			require.NoError(t, s.Stream("a", 1).Purge(t.Context(), 5))
		}, 2, replicated.ErrPurged, 2},
		{"the replica's message was lost", func(_ *testing.T, s *replicatedtest.Servers, _ *replicated.Log) { s.Lose(1, 5) }, 4, replicated.ErrDiverged, 4},
		{"the log lost its end", func(_ *testing.T, s *replicatedtest.Servers, _ *replicated.Log) { s.Forget(1, 5) }, 10, replicated.ErrLogLost, 10},
		{"a record does not fit", func(t *testing.T, _ *replicatedtest.Servers, l *replicated.Log) {
			appendRecord(t, l, "12:x")
		}, 5, replicated.ErrDiverged, 10},
		{"a record cannot be decompressed", func(t *testing.T, s *replicatedtest.Servers, l *replicated.Log) {
			send(t, s, l, replicated.KindRecord, "x")
		}, 0, replicated.ErrDiverged, 10},
		{"a record of a kind of a newer version", func(t *testing.T, s *replicatedtest.Servers, l *replicated.Log) {
			send(t, s, l, "merge", "")
		}, 0, checkpoint.ErrNewer, 10},
		{"an owner of a newer version", func(t *testing.T, s *replicatedtest.Servers, l *replicated.Log) {
			send(t, s, l, replicated.KindTake, `{"format":1,"layout":255}`)
		}, 0, checkpoint.ErrNewer, 10},
		{"a take that is too long", func(t *testing.T, s *replicatedtest.Servers, l *replicated.Log) {
			send(t, s, l, replicated.KindTake, `{"format":1,"owner":{"url":"`+strings.Repeat("x", 64<<10)+`"}}`)
		}, 0, checkpoint.ErrNewer, 10},
		{"a take of another generation", func(t *testing.T, s *replicatedtest.Servers, l *replicated.Log) {
			send(t, s, l, replicated.KindTake, `{"format":1,"cluster":"c0ffee","generation":2}`)
		}, 0, replicated.ErrLogLost, 10},
		{"a take of another cluster", func(t *testing.T, s *replicatedtest.Servers, l *replicated.Log) {
			send(t, s, l, replicated.KindTake, `{"format":1,"cluster":"other","generation":1}`)
		}, 0, replicated.ErrLogLost, 10},
		{"the log was retired", func(t *testing.T, s *replicatedtest.Servers, l *replicated.Log) {
			require.NoError(t, replicated.Retire(t.Context(), s.Stream("c", 1), options(t.Context(), "c"), l.Offset(), 2))
		}, 3, replicated.ErrMoved, 10},
		{"the log was retired by a newer version", func(t *testing.T, s *replicatedtest.Servers, l *replicated.Log) {
			send(t, s, l, replicated.KindTake, `{"format":99,"layout":255,"moved":2}`)
		}, 3, replicated.ErrMoved, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := replicatedtest.New(1, replicatedtest.Faults{})
				log := take(t, servers.Stream("a", 1), 0, options(t.Context(), "a"))
				r := &memory{}
				for i := range 10 {
					record := fmt.Sprintf("%d:x", i+1)
					offset := appendRecord(t, log, record)
					if i < c.applied {
						require.NoError(t, r.Apply([][]byte{[]byte(record)}, checkpoint.Point{Offset: offset}))
					}
				}
				c.fault(t, servers, log)
				err := end(t, servers.Stream("b", 1), r)
				require.ErrorIs(t, err, c.want)
				purged := errors.Is(err, replicated.ErrPurged)
				assert.True(t, purged == (c.want == replicated.ErrPurged) && (!purged || errors.Is(err, replicated.ErrDiverged)), err)
				assert.Equal(t, len(r.state()), c.keeps, "records of the replica")
			})
		})
	}
}

// send stores a message as if the owner of a log had sent it.
func send(t *testing.T, s *replicatedtest.Servers, l *replicated.Log, kind, data string) {
	t.Helper()
	m := replicated.Message{ID: fmt.Sprintf("a.%d.99.1/1", l.Epoch()), Kind: kind, Data: []byte(data)}
	require.Value(publish(t, s.Stream("a", 1), l.Offset(), m))(t)
}

func TestCatchUpEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		f, stop := follow(t, servers.Stream("b", 1), &memory{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, f.CatchUp(ctx, 1), context.DeadlineExceeded)
		caught := make(chan error, 1)
		go func() { caught <- f.CatchUp(t.Context(), 1) }()
		synctest.Wait()
		require.ErrorIs(t, stop(), context.Canceled)
		require.ErrorIs(t, <-caught, context.Canceled)
	})
}
