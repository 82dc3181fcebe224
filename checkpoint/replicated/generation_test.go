package replicated_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

func TestRetire(t *testing.T) {
	for _, c := range []struct {
		name string
		// prepare returns the number of the message behind which the log is retired for generation 2.
		prepare func(t *testing.T, s replicated.Stream) uint64
		want    error
	}{
		{"an empty log", func(*testing.T, replicated.Stream) uint64 { return 0 }, nil},
		{"a log with an owner", func(t *testing.T, s replicated.Stream) uint64 {
			return take(t, s, 0, options(t.Context(), "a")).Offset()
		}, nil},
		{"a log whose owner appended since", func(t *testing.T, s replicated.Stream) uint64 {
			l := take(t, s, 0, options(t.Context(), "a"))
			return appendRecord(t, l, "x") - 1
		}, checkpoint.ErrNotOwner},
		{"a log that is shorter", func(*testing.T, replicated.Stream) uint64 { return 5 }, replicated.ErrLogLost},
		{"a log that was retired before", func(t *testing.T, s replicated.Stream) uint64 { return retired(t, s, 2) }, nil},
		{"a log that was retired for another generation", func(t *testing.T, s replicated.Stream) uint64 {
			return retired(t, s, 3)
		}, replicated.ErrMoved},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := replicatedtest.New(1, replicatedtest.Faults{}).Stream("b", 1)
				last := c.prepare(t, s)
				require.ErrorIs(t, replicated.Retire(t.Context(), s, options(t.Context(), "b"), last, 2), c.want)
				if c.want != nil {
					return
				}
				last = require.Value(s.Last(t.Context()))(t)
				_, err := replicated.Take(t.Context(), s, last, options(t.Context(), "c"))
				assert.Contains(t, err.Error(), "the cluster goes on in generation 2", "a take of the retired log", err)
				require.ErrorIs(t, end(t, s, &memory{}), replicated.ErrMoved)
			})
		})
	}
}

// retired retires an empty log and returns the number of its last message.
func retired(t *testing.T, s replicated.Stream, next uint64) uint64 {
	t.Helper()
	require.NoError(t, replicated.Retire(t.Context(), s, options(t.Context(), "r"), 0, next))
	return 1
}

// TestNextGeneration retires a log under its owner and lets the cluster go on in the next one, with
// all records of a replica.
func TestNextGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		old, state := servers.Stream("a", 1), &memory{}
		f, _ := follow(t, old, state)
		owner := take(t, old, 0, options(t.Context(), "a"))
		for range 10 {
			appendRecord(t, owner, state.record("x"))
			require.NoError(t, f.CatchUp(t.Context(), owner.Offset()))
		}
		require.NoError(t, replicated.Retire(t.Context(), old, options(t.Context(), "b"), owner.Offset(), 2))
		_, err := owner.Append([]byte("late"))
		require.ErrorIs(t, err, checkpoint.ErrNotOwner)
		require.ErrorIs(t, f.CatchUp(t.Context(), owner.Offset()+1), replicated.ErrMoved)
		require.ErrorIs(t, end(t, old, state), replicated.ErrMoved) // again, after a restart

		next := servers.Stream("b", 2)
		o := options(t.Context(), "b")
		o.Identity.Generation = 2
		l := take(t, next, 0, o)
		_, err = state.Dump(t.Context(), 0, func(record []byte) error {
			_, err := l.Append(record)
			return err
		})
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
		copied := &memory{}
		f, stop := follow(t, next, copied)
		require.NoError(t, f.CatchUp(t.Context(), l.Offset()))
		require.ErrorIs(t, stop(), context.Canceled)
		wantState(t, copied, &memory{records: state.state(), offset: l.Offset()})
		assert.Equal(t, replicated.IdentityOf(copied.At()), o.Identity, "the copy is of")
		require.ErrorIs(t, end(t, next, state), replicated.ErrLogLost) // a copy of the generation before
	})
}

// TestDescription: what an owner says of itself comes with takes and renewals.
func TestDescription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{MaxData: 20}) // a renewal has several parts
		now := replicated.Owner{Member: "a", Version: "1.0", URL: "https://a:8443", Config: "1"}
		o := options(t.Context(), "a.1")
		o.Describe = func() replicated.Owner { return now }
		state := &memory{}
		f, stop := follow(t, servers.Stream("b", 1), state)
		want := func(want replicated.Owner) {
			t.Helper()
			time.Sleep(time.Second)
			assert.Equal(t, f.Status().About, want, "the owner is")
		}
		l := take(t, servers.Stream("a", 1), 0, o)
		want(now)
		now.Config = "2"
		appendRecord(t, l, "")
		want(now)
		appendRecord(t, l, "1:x")
		want(now)
		servers.SetFaults(replicatedtest.Faults{})
		o.Owner = "a.2"
		l = take(t, servers.Stream("a", 1), l.Offset(), o)
		appendRecord(t, l, "")
		want(now)
		require.ErrorIs(t, stop(), context.Canceled)
		f, stop = follow(t, servers.Stream("b", 1), state) // it reads the last message again
		want(now)
		for _, data := range []string{"", "{", `{"member":1}`, `{"member":"` + strings.Repeat("x", 1<<20) + `"}`} {
			require.Value(publish(t, servers.Stream("a", 1), f.Status().Seen, replicated.Message{ID: "a.2.2.99.1/1", Kind: replicated.KindRenew, Data: []byte(data)}))(t)
			want(now)
		}
		take(t, servers.Stream("c", 1), f.Status().Seen, options(t.Context(), "c"))
		want(replicated.Owner{})
		require.ErrorIs(t, stop(), context.Canceled)
	})
}

// TestSnapshotOfAnotherLog must not be restored.
func TestSnapshotOfAnotherLog(t *testing.T) {
	servers := replicatedtest.New(1, replicatedtest.Faults{})
	s := servers.Snapshots("a", 1)
	require.Value(replicated.WriteSnapshot(t.Context(), servers.Stream("a", 1), s, filled(3, 10, 5)))(t)
	for _, of := range []replicated.Identity{{}, {Cluster: "c0ffee", Generation: 2}, {Cluster: "other", Generation: 1}} {
		_, err := replicated.Restore(t.Context(), s, of, nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), "is of cluster c0ffee, generation 1, not of"), "restored for", of, err)
	}
}

// TestSnapshotOfALostEnd: a member whose copy has nothing of what the log lost, or that has no copy,
// notices it by the snapshot, whatever was appended since.
func TestSnapshotOfALostEnd(t *testing.T) {
	for name, appended := range map[string]int{"and nothing was appended since": -1, "and it was taken since": 0, "and it is as long again": 4, "and it is longer": 9} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := replicatedtest.New(1, replicatedtest.Faults{})
				s, snapshots := servers.Stream("b", 1), servers.Snapshots("b", 1)
				state, left := &memory{}, &memory{}
				l := take(t, s, 0, options(t.Context(), "a"))
				grow(t, l, 5, state, left)
				grow(t, l, 5, state)
				require.Value(replicated.WriteSnapshot(t.Context(), s, snapshots, state))(t)
				servers.Forget(1, left.Offset())
				if appended >= 0 {
					grow(t, take(t, s, left.Offset(), options(t.Context(), "c")), appended, left)
				}
				o := replicated.FollowerOptions{Clock: replicatedtest.NewClock(1), Snapshots: snapshots}
				require.ErrorIs(t, replicated.NewFollower(s, left, o).Run(t.Context()), replicated.ErrLogLost)
				none, _ := restored(t, snapshots)
				require.ErrorIs(t, replicated.NewFollower(s, none, o).Run(t.Context()), replicated.ErrLogLost)
				_, err := replicated.WriteSnapshot(t.Context(), s, snapshots, left)
				if appended >= 4 {
					require.ErrorIs(t, err, replicated.ErrLogLost)
				}
				p, _, pointed := snapshots.Pointer(t.Context())
				assert.True(t, err != nil && pointed == nil && p.Last.Offset == state.Offset(), "a snapshot was written", p, err, pointed)
			})
		})
	}
}

// counting counts how often the leader is asked.
type counting struct {
	replicated.Stream
	asked atomic.Int64
}

func (s *counting) Last(ctx context.Context) (uint64, error) {
	s.asked.Add(1)
	return s.Stream.Last(ctx)
}

// TestRenewalsReplacePolls: while the owner renews its lease, the leader is asked rarely.
func TestRenewalsReplacePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		s := &counting{Stream: servers.Stream("b", 1)}
		l := take(t, servers.Stream("a", 1), 0, options(t.Context(), "a"))
		f, stop := follow(t, s, &memory{})
		for range 50 {
			appendRecord(t, l, "")
			time.Sleep(2 * time.Second)
		}
		n := s.asked.Swap(0)
		assert.True(t, n >= 5 && n <= 15, "it was asked", n, "times in 100 s")
		time.Sleep(30 * time.Second)
		n, st := s.asked.Load(), f.Status()
		assert.True(t, n >= 9 && n <= 11 && st.Quiet == 32*time.Second, "it was asked", n, "times in 30 s without messages; the log is quiet for", st.Quiet)
		require.ErrorIs(t, stop(), context.Canceled)
	})
}
