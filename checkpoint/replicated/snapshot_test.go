package replicated_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// filled returns a state of n records of some bytes that do not compress, at an offset of a log.
func filled(n, bytes int, offset uint64) *memory {
	m := &memory{offset: offset, trail: "a c0ffee 1"}
	random := rand.New(rand.NewPCG(1, offset))
	for range n {
		m.records = append(m.records, m.record(noise(random, bytes)))
	}
	return m
}

// restored returns the state of the last snapshot, or of the one before.
func restored(t *testing.T, s replicated.Snapshots) (*memory, replicated.Snapshot) {
	t.Helper()
	r := &memory{}
	snapshot := require.Value(replicated.Restore(t.Context(), s, identity, r.empty))(t)
	return r, snapshot
}

func wantState(t *testing.T, got, want *memory) {
	t.Helper()
	if !slices.Equal(got.state(), want.state()) || got.Offset() != want.Offset() {
		t.Fatalf("%d records up to %d, want %d up to %d", len(got.state()), got.Offset(), len(want.state()), want.Offset())
	}
}

func objects(t *testing.T, s replicated.Snapshots) []string {
	t.Helper()
	objects := require.Value(s.Objects(t.Context()))(t)
	return objects
}

// TestSnapshots checks that states are restored as they were written, on JetStream and on the
// fake.
func TestSnapshots(t *testing.T) {
	type stores func(t *testing.T) (replicated.Stream, replicated.Snapshots)
	for name, open := range map[string]stores{
		"JetStream": func(t *testing.T) (replicated.Stream, replicated.Snapshots) {
			return openGeneration(t, openJetStream(t, startServer(t, nil), one))
		},
		"fake": func(*testing.T) (replicated.Stream, replicated.Snapshots) {
			s := replicatedtest.New(1, replicatedtest.Faults{})
			return s.Stream("a", 1), s.Snapshots("a", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, s := open(t)
			_, err := replicated.Restore(t.Context(), s, identity, nil)
			require.ErrorIs(t, err, replicated.ErrNoSnapshot)
			for i := range uint64(40) {
				require.Value(publish(t, log, i, replicated.Message{ID: "a"}))(t)
			}
			for i, state := range []*memory{filled(0, 0, 10), filled(3, 10, 20), filled(20, 1<<20, 30), filled(2, 3, 40)} {
				written := require.Value(replicated.WriteSnapshot(t.Context(), log, s, state))(t)
				got, snapshot := restored(t, s)
				wantState(t, got, state)
				assert.True(t, snapshot == written && snapshot.Offset == state.offset && !snapshot.Time.IsZero(), "restored", snapshot, "written", written)
				n := len(objects(t, s))
				assert.True(t, n <= 2, n, "objects after", i+1, "snapshots, want 2")
			}
			require.ErrorIs(t, log.Follow(t.Context(), 29, nil), replicated.ErrPurged)
			_, err = log.Get(t.Context(), 30)
			assert.NoError(t, err, "the message of the snapshot before the last")
			again := s.Writer(t.Context(), objects(t, s)[0])
			_, err = again.Write([]byte("late"))
			assert.Error(t, err, "an object was written twice")
			if _, err := replicated.WriteSnapshot(t.Context(), log, s, filled(2, 3, 40)); err == nil || len(objects(t, s)) != 2 {
				t.Errorf("a snapshot of the same message: %v, objects %v", err, objects(t, s))
			}
		})
	}
}

func TestRestoreFallsBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, servers *replicatedtest.Servers, p replicated.Pointer)
		want   uint64 // the offset that is restored; 0: none
	}{
		{"both can be read", func(*testing.T, *replicatedtest.Servers, replicated.Pointer) {}, 20},
		{"the last is damaged", func(_ *testing.T, s *replicatedtest.Servers, p replicated.Pointer) {
			s.Damage(1, p.Last.Object, 0)
		}, 10},
		{"the last is gone", func(t *testing.T, s *replicatedtest.Servers, p replicated.Pointer) {
			_ = s.Snapshots("a", 1).Remove(t.Context(), p.Last.Object)
		}, 10},
		{"both are damaged", func(_ *testing.T, s *replicatedtest.Servers, p replicated.Pointer) {
			s.Damage(1, p.Last.Object, 0)
			s.Damage(1, p.Previous.Object, 0)
		}, 0},
		{"the pointer has other sizes", func(t *testing.T, s *replicatedtest.Servers, p replicated.Pointer) {
			p.Last.Bytes++
			p.Previous.Bytes--
			setPointer(t, s, p)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			servers := replicatedtest.New(1, replicatedtest.Faults{MaxData: 100})
			log, s := servers.Stream("a", 1), servers.Snapshots("a", 1)
			for offset := uint64(10); offset <= 20; offset += 10 {
				require.Value(replicated.WriteSnapshot(t.Context(), log, s, filled(50, 20, offset)))(t)
			}
			p, _, err := s.Pointer(t.Context())
			require.NoError(t, err)
			c.damage(t, servers, p)
			r := &memory{}
			snapshot, err := replicated.Restore(t.Context(), s, identity, r.empty)
			if (err != nil) != (c.want == 0) || snapshot.Offset != c.want || r.Offset() != c.want {
				t.Errorf("restored up to %d, replica at %d, error %v; want %d", snapshot.Offset, r.Offset(), err, c.want)
			}
			if err == nil {
				wantState(t, r, filled(50, 20, c.want))
			}
		})
	}
}

// TestDamageAnywhereIsDetected changes each byte of a snapshot, and cuts it off everywhere.
func TestDamageAnywhereIsDetected(t *testing.T) {
	servers := replicatedtest.New(1, replicatedtest.Faults{})
	s, want := servers.Snapshots("a", 1), filled(5, 20, 10)
	snapshot, err := replicated.WriteSnapshot(t.Context(), servers.Stream("a", 1), s, want)
	require.NoError(t, err)
	for at := range int(snapshot.Bytes) {
		servers.Damage(1, snapshot.Object, at)
		r := &memory{}
		damaged := replicated.RestoreOne(t.Context(), s, snapshot, r)
		servers.Damage(1, snapshot.Object, at)
		var whole bytes.Buffer
		require.NoError(t, s.Read(t.Context(), snapshot.Object, snapshot.Bytes, &whole))
		cut := replicated.Snapshot{Object: fmt.Sprint(at), Bytes: int64(at)}
		_, err = s.Writer(t.Context(), cut.Object).Write(whole.Bytes()[:at])
		require.NoError(t, err)
		if cut := replicated.RestoreOne(t.Context(), s, cut, &memory{}); damaged == nil && !slices.Equal(r.state(), want.state()) || cut == nil {
			t.Errorf("byte %d of %d: damaged: %v; cut off: %v", at, snapshot.Bytes, damaged, cut)
		}
	}
}

func setPointer(t *testing.T, s *replicatedtest.Servers, p replicated.Pointer) {
	t.Helper()
	_, revision, err := s.Snapshots("a", 1).Pointer(t.Context())
	require.NoError(t, errors.Join(err, s.Snapshots("a", 1).SetPointer(t.Context(), p, revision)))
}

// TestFollowersMakeSnapshots checks that a log with two followers does not grow for ever, and
// that each record of it is written to one snapshot or two.
func TestFollowersMakeSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		var made atomic.Int64
		for _, name := range []string{"b", "c"} {
			f := replicated.NewFollower(servers.Stream(name, 1), &memory{}, replicated.FollowerOptions{
				Clock: replicatedtest.NewClock(1), Snapshots: servers.Snapshots(name, 1),
				Snapshot: replicated.SnapshotterOptions{Patience: map[string]float64{"c": 0.5}[name], Messages: 100, Made: func(_ replicated.Snapshot, _ time.Duration, err error) {
					made.Add(1)
					assert.NoError(t, err)
				}},
			})
			go f.Run(t.Context())
		}
		log := take(t, servers.Stream("a", 1), 0, options(t.Context(), "a"))
		for i := range 1000 {
			appendRecord(t, log, fmt.Sprintf("%d:%s", i+1, strings.Repeat("x", 100)))
			time.Sleep(time.Second)
		}
		n := made.Load()
		assert.True(t, n >= 8 && n <= 11, n, "snapshots were made, want 10")
		if n := len(servers.Messages(1)); n > 250 {
			t.Errorf("the log has %d messages", n)
		}
		if n := len(objects(t, servers.Snapshots("a", 1))); n > 2 {
			t.Errorf("%d objects", n)
		}
	})
}

// TestNoSnapshotsOfAWrongReplica lets a replica with another state follow: until a record
// shows that it is another, no snapshot is made.
func TestNoSnapshotsOfAWrongReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		log := take(t, servers.Stream("a", 1), 0, options(t.Context(), "a"))
		state := &memory{}
		grow(t, log, 10, state)
		wrong := filled(9, 1, log.Offset())
		wrong.trail = ""
		f := replicated.NewFollower(servers.Stream("b", 1), wrong, replicated.FollowerOptions{
			Clock: replicatedtest.NewClock(1), Snapshots: servers.Snapshots("b", 1), Snapshot: replicated.SnapshotterOptions{Messages: 1},
		})
		ended := make(chan error, 1)
		go func() { ended <- f.Run(t.Context()) }()
		for range 100 {
			appendRecord(t, log, "")
			time.Sleep(5 * time.Second)
		}
		grow(t, log, 1, state)
		require.ErrorIs(t, <-ended, replicated.ErrDiverged)
		assert.Empty(t, objects(t, servers.Snapshots("a", 1)), "objects")
	})
}

// snapshotPlan makes snapshots of a growing log while the servers have faults and members end.
type snapshotPlan struct {
	seed   uint64
	faults replicatedtest.Faults
	steps  int
}

// run describes the first moment in which a state could not be restored.
func (p snapshotPlan) run(t *testing.T) string {
	random := rand.New(rand.NewPCG(p.seed, 1))
	servers := replicatedtest.New(p.seed, replicatedtest.Faults{})
	sabotage := replicatedtest.Faults{PurgeBeyond: p.faults.PurgeBeyond}
	log := take(t, servers.Stream("a", 1), 0, options(t.Context(), "a"))
	state := &memory{}
	for range p.steps {
		servers.SetFaults(sabotage)
		for range 1 + random.IntN(5) {
			record := state.record(noise(random, random.IntN(300)))
			if err := state.Apply([][]byte{[]byte(record)}, checkpoint.Point{Offset: appendRecord(t, log, record)}); err != nil {
				return err.Error()
			}
		}
		servers.SetFaults(p.faults)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(20_000))*time.Millisecond)
		_, err := replicated.WriteSnapshot(ctx, servers.Stream("b", 1), servers.Snapshots("b", 1), state)
		cancel()
		servers.SetFaults(sabotage)
		if objects := objects(t, servers.Snapshots("c", 1)); err == nil && len(objects) > 2 {
			return fmt.Sprintf("%d objects after a snapshot", len(objects))
		}
		if broken := restorable(t, servers, state); broken != "" {
			return broken
		}
	}
	return ""
}

// restorable checks that the state can be made of each snapshot and the log behind it.
func restorable(t *testing.T, servers *replicatedtest.Servers, want *memory) string {
	p, _, err := servers.Snapshots("c", 1).Pointer(t.Context())
	if err != nil {
		return err.Error()
	}
	for _, snapshot := range []replicated.Snapshot{p.Last, p.Previous} {
		r := &memory{}
		if snapshot.Object != "" {
			if err := replicated.RestoreOne(t.Context(), servers.Snapshots("c", 1), snapshot, r); err != nil {
				return err.Error()
			}
		} else if p.Number > 1 {
			return "there is one snapshot only"
		}
		ctx, cancel := context.WithCancel(t.Context())
		f := replicated.NewFollower(servers.Stream("c", 1), r, replicated.FollowerOptions{Clock: replicatedtest.NewClock(1)})
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		err := f.CatchUp(ctx, want.Offset())
		cancel()
		<-ended
		if err != nil {
			return err.Error()
		}
		if !slices.Equal(r.state(), want.state()) {
			return "the restored state is another"
		}
	}
	return ""
}

func TestSnapshotsAreAlwaysRestorable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		chance := func(name string) float64 { return rapid.Float64Range(0, 0.3).Draw(rt, name) }
		p := snapshotPlan{
			seed: rapid.Uint64().Draw(rt, "seed"), steps: rapid.IntRange(1, 15).Draw(rt, "steps"),
			faults: replicatedtest.Faults{
				LoseAnswers: chance("lost answers"), FailReads: chance("failed reads"), MaxData: 64,
				Delay: time.Duration(rapid.IntRange(0, 300).Draw(rt, "delay")) * time.Millisecond,
			},
		}
		broken := ""
		synctest.Test(t, func(t *testing.T) { broken = p.run(t) })
		require.Equal(rt, broken, "")
	})
}

// TestPurgingTooFarIsDetected purges one message that a snapshot needs.
func TestPurgingTooFarIsDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := snapshotPlan{seed: 1, steps: 10, faults: replicatedtest.Faults{PurgeBeyond: 2}}
		assert.True(t, p.run(t) != "", "not detected")
	})
}
