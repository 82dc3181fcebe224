package replicated_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// grow appends n records to a log and to the states that follow it.
func grow(t *testing.T, l *replicated.Log, n int, states ...*memory) {
	t.Helper()
	for range n {
		record := states[0].record(fmt.Sprint("of epoch ", l.Epoch()))
		at, err := l.Append([]byte(record))
		require.NoError(t, err)
		for _, s := range states {
			require.NoError(t, s.Apply([][]byte{[]byte(record)}, at))
		}
	}
}

func recoverOptions(t *testing.T, s replicated.Stream, owner string) replicated.RecoverOptions {
	t.Helper()
	last, err := s.Last(t.Context())
	require.NoError(t, err)
	return replicated.RecoverOptions{Options: options(t.Context(), owner), Last: last, Wall: noon}
}

func TestRecover(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, servers *replicatedtest.Servers){
		"nothing is lost":    func(*testing.T, *replicatedtest.Servers) {},
		"the end is lost":    func(_ *testing.T, s *replicatedtest.Servers) { s.Forget(0, 6) },
		"everything is lost": func(_ *testing.T, s *replicatedtest.Servers) { s.Forget(0, 0) },
		"a snapshot was made of what is lost": func(t *testing.T, s *replicatedtest.Servers) {
			state := filled(3, 10, 9)
			if _, err := replicated.WriteSnapshot(t.Context(), s.Stream("x", 0), s.Snapshots("x", 0), state, noon); err != nil {
				t.Fatal(err)
			}
			s.Forget(0, 6)
		},
		"another owner took the log since": func(t *testing.T, s *replicatedtest.Servers) {
			s.Forget(0, 6)
			take(t, s.Stream("c", 0), 6, options(t.Context(), "c"))
		},
		"another owner took the log since and made a snapshot": func(t *testing.T, s *replicatedtest.Servers) {
			s.Forget(0, 6)
			take(t, s.Stream("c", 0), 6, options(t.Context(), "c"))
			if _, err := replicated.WriteSnapshot(t.Context(), s.Stream("x", 0), s.Snapshots("x", 0), filled(3, 10, 7), noon); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := replicatedtest.New(1, replicatedtest.Faults{})
				s, snapshots := servers.Stream("b", 0), servers.Snapshots("b", 0)
				state, behind := &memory{}, &memory{}
				l := take(t, s, 0, options(t.Context(), "a"))
				grow(t, l, 3, state, behind)
				grow(t, l, 7, state)
				lose(t, servers)
				before := state.At()
				require.NoError(t, replicated.Recover(t.Context(), s, snapshots, state, recoverOptions(t, s, "b")))
				p, _, err := snapshots.Pointer(t.Context())
				if err != nil || !replicated.Superseded(before, p.Last) || replicated.Superseded(checkpoint.Point{Trail: p.Last.Trail}, p.Last) {
					t.Errorf("a copy of before is to be replaced by %+v (%v), and no other", p.Last, err)
				}
				wantRecovered(t, servers, state, behind)
			})
		})
	}
}

func TestALogThatSomebodyAppendsToIsNotRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		s, state := servers.Stream("b", 0), &memory{}
		l := take(t, s, 0, options(t.Context(), "a"))
		grow(t, l, 3, state)
		o := recoverOptions(t, s, "b")
		grow(t, l, 1, state)
		err := replicated.Recover(t.Context(), s, servers.Snapshots("b", 0), state, o)
		if err == nil || !strings.Contains(err.Error(), "nothing was recovered") {
			t.Errorf("%v", err)
		}
		taken := &publishing{Stream: s, before: func() { take(t, servers.Stream("c", 0), l.Offset(), options(t.Context(), "c")) }}
		err = replicated.Recover(t.Context(), taken, servers.Snapshots("b", 0), state, recoverOptions(t, s, "b"))
		require.ErrorIs(t, err, checkpoint.ErrNotOwner)
	})
}

// wantRecovered checks that every replica comes to the state and goes on from there.
func wantRecovered(t *testing.T, servers *replicatedtest.Servers, state, behind *memory) {
	t.Helper()
	s, snapshots := servers.Stream("b", 0), servers.Snapshots("b", 0)
	now, snapshot := restored(t, s, snapshots)
	state.offset = snapshot.Offset
	wantState(t, now, state)
	f, stop := follow(t, s, now)
	time.Sleep(time.Second)
	st := f.Status()
	if !st.Released || st.Seen != snapshot.Offset+1 || st.Epoch < 2 {
		t.Errorf("status %+v, want a release behind message %d, in a later epoch than that of the lost end", st, snapshot.Offset)
	}
	require.ErrorIs(t, stop(), context.Canceled)
	l := take(t, s, st.Seen, options(t.Context(), "d"))
	require.NoError(t, now.Apply(nil, checkpoint.Point{Offset: l.Offset()}))
	grow(t, l, 5, now)
	if behind.Offset() < snapshot.Offset {
		require.ErrorIs(t, end(t, s, behind), replicated.ErrDiverged) // it was replaced
	}
	again, _ := restored(t, s, snapshots)
	f, stop = follow(t, s, again)
	require.NoError(t, f.CatchUp(t.Context(), l.Offset()))
	require.ErrorIs(t, stop(), context.Canceled)
	wantState(t, again, now)
}

// publishing is a stream that calls before in front of its first message.
type publishing struct {
	replicated.Stream
	before func()
}

func (s *publishing) Publish(after uint64, m replicated.Message, answer func(uint64, error)) error {
	if f := s.before; f != nil {
		s.before = nil
		f()
	}
	return s.Stream.Publish(after, m, answer)
}

// TestRecoverWhileAnotherMakesSnapshots checks that Recover does not point to an object that
// another member's snapshot has removed.
func TestRecoverWhileAnotherMakesSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		s, snapshots := servers.Stream("b", 0), servers.Snapshots("b", 0)
		state, behind := &memory{}, &memory{}
		grow(t, take(t, s, 0, options(t.Context(), "a")), 10, state)
		servers.Forget(0, 6)
		other := &publishing{Stream: s, before: func() {
			if n := len(objects(t, snapshots)); n != 1 {
				t.Errorf("%d objects before the log is taken", n)
			}
			if _, err := replicated.WriteSnapshot(t.Context(), s, servers.Snapshots("x", 0), filled(3, 10, 9), noon); err != nil {
				t.Error(err)
			}
		}}
		require.NoError(t, replicated.Recover(t.Context(), other, snapshots, state, recoverOptions(t, s, "b")))
		if left := objects(t, snapshots); len(left) != 1 {
			t.Errorf("objects %q", left)
		}
		wantRecovered(t, servers, state, behind)
	})
}
