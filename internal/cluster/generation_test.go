package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/lease"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// spoil appends a record to the log, which nobody owns, that does not lead from its state, so that
// nobody can follow it any longer.
func (s *simulation) spoil(t *testing.T) {
	t.Helper()
	stream := s.servers.Stream("stray", s.generation())
	last, err := stream.Last(t.Context())
	require.NoError(t, err)
	stray, err := replicated.Take(t.Context(), stream, last, replicated.Options{Context: t.Context(), Owner: "stray", Clock: lease.System()})
	require.NoError(t, err)
	require.Value(stray.Append(simRecord{Before: &simState{Number: 1 << 40}}.encode()))(t)
}

// number returns how many records the copy has.
func (d *simDisk) number() uint64 { return d.numberAt(simPath) }

// numberAt returns how many records the file at a path has.
func (d *simDisk) numberAt(path string) uint64 {
	d.mu.Lock()
	f := d.files[path]
	d.mu.Unlock()
	if f == nil {
		return 0
	}
	return f.read().Number
}

// aside returns the most records that a file which was set aside has.
func (d *simDisk) aside() (records uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, f := range d.files {
		if strings.HasSuffix(path, ".lost") {
			records = max(records, f.state.Number)
		}
	}
	return records
}

// TestRecover: nobody can follow a log any more until the next generation begins with the copy of a
// member.
func TestRecover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, nil)
		s.roles(t)
		for _, m := range s.members {
			assert.ErrorContains(t, m.node().Recover(t.Context()), "owns it", "a log with an owner")
		}
		for _, m := range s.members {
			m.stop()
		}
		before := max(s.members[0].disk.number(), s.members[1].disk.number())
		s.spoil(t)
		for _, m := range s.members {
			m.start()
		}
		time.Sleep(10 * startup)
		if owner := s.owner(); owner != nil {
			t.Fatalf("%s owns the log", owner.name)
		}
		require.NoError(t, s.members[1].node().Recover(t.Context()))
		s.wantRecovered(t, 2, before)
	})
}

// TestRecoverFromTheFurthestCopyOnly: as long as a member can be reached that has more of the log.
func TestRecoverFromTheFurthestCopyOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, withoutSnapshots)
		owner, standbys := s.roles(t)
		standby := standbys[0]
		standby.stop()
		time.Sleep(10 * testTerm)
		owner.stop()
		had := owner.disk.number()
		s.servers.Forget(s.generation(), 0)
		for _, m := range s.members {
			m.start()
		}
		time.Sleep(10 * startup)
		err := standby.node().Recover(t.Context())
		require.True(t, err != nil && strings.Contains(err.Error(), "member "+owner.name+" has generation 1"), "a copy that is behind another", err)
		require.NoError(t, owner.node().Recover(t.Context()))
		s.wantRecovered(t, 2, had)
	})
}

// TestRequestIsDroppedOnceItsClientHasLeft: the member goes on, and can be asked again.
func TestRequestIsDroppedOnceItsClientHasLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var begun atomic.Int64
		s := startCluster(t, 1, func(o Options) Options {
			o.Log = slog.New(matching{discard.Handler(), "was not continued", &begun})
			return o
		})
		m := s.members[0]
		m.stop()
		s.spoil(t)
		m.start()
		time.Sleep(startup)
		left, leave := context.WithCancel(t.Context())
		leave()
		for range 2 {
			assert.NoError(t, m.node().accept(&recovery{ctx: left, done: make(chan error, 1)}))
			time.Sleep(testTerm / 10)
		}
		n := begun.Load()
		assert.True(t, n <= 0, "a recovery that nobody waits for was begun", n, "times")
	})
}

// slowFollower is a follower that takes a while to catch up.
type slowFollower struct{ follower }

func (f slowFollower) CatchUp(ctx context.Context, until uint64) error {
	time.Sleep(testTerm / 6)
	return f.follower.CatchUp(ctx, until)
}

// TestRequestIsRefusedOnceTheMemberOwnsTheLog: it arrived while the member took the log.
func TestRequestIsRefusedOnceTheMemberOwnsTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 1, func(o Options) Options {
			o.follow = func(s replicated.Stream, r replicated.Replica, f replicated.FollowerOptions) follower {
				return slowFollower{replicated.NewFollower(s, r, f)}
			}
			return o
		})
		m := s.members[0]
		m.stop()
		m.start()
		for began := time.Now(); m.state() != stateTaking && time.Since(began) < startup; {
			time.Sleep(testTerm / 60)
		}
		wantState(t, m, stateTaking)
		request := &recovery{ctx: t.Context(), done: make(chan error, 1)}
		n := m.node()
		n.mu.Lock()
		n.recovery = request
		n.mu.Unlock()
		assert.ErrorContains(t, <-request.done, "has just taken it")
		wantState(t, m, stateOwning)
	})
}

// TestCopyThatARecoveryReplacesIsKept recovers the log from an older copy than a member has: its
// file is set aside, and an operator can go back to it.
func TestCopyThatARecoveryReplacesIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, withoutSnapshots)
		latest, standbys := s.roles(t)
		older := standbys[0]
		time.Sleep(5 * testTerm)
		older.stop()
		time.Sleep(10 * testTerm)
		latest.stop()
		before := latest.disk.number()
		n := older.disk.number()
		require.True(t, n != 0 && n < before, "the copies have", before, n, "records")
		s.servers.Forget(s.generation(), 0)
		older.start()
		time.Sleep(startup)
		require.NoError(t, older.node().Recover(t.Context()))
		time.Sleep(startup)
		wantState(t, older, stateOwning)
		latest.start()
		time.Sleep(4 * testTerm)
		wantState(t, latest, stateFollowing)
		require.Equal(t, latest.disk.aside(), before, "records are set aside")
	})
}

// TestAnOwnerOfTheGenerationBeforeIsFenced: it could not reach NATS while the next generation began.
func TestAnOwnerOfTheGenerationBeforeIsFenced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, withoutSnapshots)
		owner, standbys := s.roles(t)
		time.Sleep(testTerm)
		standbys[0].stop()
		s.servers.Cut(owner.name, true)
		owner.gate().setCut(true)
		time.Sleep(2 * testTerm)
		f, err := standbys[0].disk.openFile(simPath)
		require.NoError(t, err)
		g := Generations{Name: "sim", Registry: s.registry, Storage: s.storage("operator"), Clock: lease.System(), Term: testTerm}
		var asked Successor
		done, err := g.Continue(t.Context(), f, func(s Successor) error {
			asked = s
			return nil
		})
		require.NoError(t, errors.Join(err, f.Close()))
		assert.True(t, asked.Next == 0 && asked.Current == 1 && asked.Last != 0 && asked.Offset != 0 && done.Next == 2, "asked about", asked, "done", done)
		s.servers.Cut(owner.name, false)
		owner.gate().setCut(false)
		time.Sleep(4 * testTerm)
		standbys[0].start()
		time.Sleep(startup)
		if s.owner() == nil || s.generation() != 2 {
			t.Errorf("generation %d has no owner", s.generation())
		}
		for _, m := range s.members {
			r := m.node().Report()
			assert.Equal(t, r.Generation, 2, m.name, "has generation")
		}
	})
}

// TestACreationThatFailedCanBeRepeated: what is left of it is not used.
func TestACreationThatFailedCanBeRepeated(t *testing.T) {
	t.Parallel()
	servers, registry := replicatedtest.New(1, replicatedtest.Faults{}), newFakeRegistry()
	g := Generations{Name: "prod", Registry: registry, Clock: lease.System(), Term: testTerm, Storage: func(_ context.Context, generation uint64, create bool) (Storage, error) {
		return Storage{Stream: servers.Stream("a", generation)}, nil
	}}
	broken := errors.New("the file cannot be read")
	require.ErrorIs(t, g.Init(t.Context(), brokenState{broken}, func(int64) {}), broken)
	_, _, err := getSettings(t.Context(), registry, "prod")
	assert.True(t, err != nil && strings.Contains(err.Error(), "ndrbridge cluster init"), "a member finds a cluster", err)
	require.NoError(t, g.Init(t.Context(), nil, func(int64) {}))
	used, _, err := getSettings(t.Context(), registry, "prod")
	assert.True(t, err == nil && used.Generation == 2, "a member finds", used, err)
	err = g.Init(t.Context(), nil, func(int64) {})
	assert.True(t, errors.Is(err, ErrNotNew) && strings.Contains(err.Error(), "exists"), "it is created a second time", err)
}

// brokenState is a state that fails after its first record.
type brokenState struct{ err error }

func (b brokenState) Dump(_ context.Context, _ int, yield func([]byte) error) (checkpoint.Point, error) {
	return checkpoint.Point{}, errors.Join(yield([]byte("a record")), b.err)
}

func TestSettingsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ value, want string }{
		"no JSON":              {"<html>", "another program"},
		"of another cluster":   {`{"name":"test","id":"x","generation":1}`, "another program"},
		"without an identity":  {`{"name":"prod","generation":1}`, "another program"},
		"far too long":         {`{"name":"` + strings.Repeat("x", maxSettings) + `"}`, "another program"},
		"with a newer layout":  {`{"name":"prod","id":"x","generation":1,"layout":200}`, "install the version"},
		"without a generation": {`{"name":"prod","id":"x"}`, "another program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFakeRegistry()
			require.NoError(t, r.Put(t.Context(), settingsKey, []byte(c.value), 0))
			_, _, err := getSettings(t.Context(), r, "prod")
			assert.True(t, err != nil && strings.Contains(err.Error(), c.want), err, c.want)
		})
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	to := path + ".lost"
	for n := range 2 {
		require.NoError(t, os.WriteFile(path, fmt.Append(nil, n), 0o600))
		require.NoError(t, (disk{}).rename(path, to))
		_, err := os.Stat(path)
		assert.ErrorIs(t, err, fs.ErrNotExist, "renamed")
		b, err := os.ReadFile(to)
		assert.Equal(t, string(b), fmt.Sprint(n), err)
	}
	assert.ErrorIs(t, (disk{}).rename(path, to), fs.ErrNotExist, "no file")
	for range 2 {
		assert.NoError(t, (disk{}).remove(to))
	}
	_, err := os.Stat(to)
	assert.ErrorIs(t, err, fs.ErrNotExist, "removed")
}
