package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/lease"
	"ndrbridge/test/require"
)

// spoil appends a record to the log of a shard that nobody owns which does not lead from its
// state, so that nobody can follow it any longer, and then renewals.
func (s *simulation) spoil(t *testing.T, shard, renewals int) {
	t.Helper()
	stream := s.servers.Stream("stray", shard)
	last, err := stream.Last(t.Context())
	require.NoError(t, err)
	stray, err := replicated.Take(t.Context(), stream, last, replicated.Options{Context: t.Context(), Owner: "stray", Clock: lease.System()})
	require.NoError(t, err)
	if _, err := stray.Append(simRecord{Before: &simState{Number: 1 << 40}}.encode()); err != nil {
		t.Fatal(err)
	}
	for range renewals {
		if _, err := stray.Append(nil); err != nil {
			t.Fatal(err)
		}
	}
}

// number returns how many records the state of a shard has.
func (d *simDisk) number(shard int) uint64 { return d.numberAt(fmt.Sprint("state.", shard)) }

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

// TestRecoverFrom: nobody can follow a log any more until it is continued from a member.
func TestRecoverFrom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, nil)
		one, two := s.members[0], s.members[1]
		time.Sleep(startup)
		if owner := s.owner(0); owner == nil {
			t.Fatal("nobody owns the shard")
		}
		for _, m := range s.members {
			if err := m.node().Recover(t.Context(), admin.Recovery{Shard: new(0), From: m.name}); err == nil || !strings.Contains(err.Error(), "owns it") {
				t.Errorf("a shard with an owner: %v", err)
			}
		}
		one.stop()
		two.stop()
		before := max(one.disk.number(0), two.disk.number(0))
		s.spoil(t, 0, 0)
		one.start()
		two.start()
		time.Sleep(10 * startup)
		if owner := s.owner(0); owner != nil {
			t.Fatalf("%s owns the shard", owner.name)
		}
		for what, wrong := range map[string]admin.Recovery{
			"no shard": {Shard: new(simShards), From: two.name}, "another member": {Shard: new(0), From: one.name},
		} {
			if err := two.node().Recover(t.Context(), wrong); !errors.Is(err, admin.ErrUnknown) {
				t.Errorf("%s: %v", what, err)
			}
		}
		require.NoError(t, two.node().Recover(t.Context(), admin.Recovery{Shard: new(0), From: two.name}))
		time.Sleep(startup)
		owner := s.owner(0)
		if owner == nil {
			t.Fatal("nobody owns the recovered shard")
		}
		if after := owner.disk.number(0); before == 0 || after < before {
			t.Errorf("its state has %d records, and had %d", after, before)
		}
	})
}

// TestRequestIsDroppedOnceItsClientHasLeft: the member follows the shard on, and can be asked
// again.
func TestRequestIsDroppedOnceItsClientHasLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var begun atomic.Int64
		s := startCluster(t, 2, func(o Options) Options {
			o.Log = slog.New(matching{discard.Handler(), "was not recovered", &begun})
			return o
		})
		time.Sleep(steady)
		follower := s.byRank(0)[1]
		left, leave := context.WithCancel(t.Context())
		leave()
		for range 2 {
			if err := follower.node().shards[0].accept(&recovery{ctx: left, done: make(chan error, 1)}); err != nil {
				t.Error(err)
			}
			time.Sleep(testTerm / 10)
		}
		wantState(t, follower, 0, stateFollowing)
		if n := begun.Load(); n > 0 {
			t.Errorf("a recovery that nobody waits for was begun %d times", n)
		}
	})
}

// slowFollower is a follower that takes a while to catch up.
type slowFollower struct{ follower }

func (f slowFollower) CatchUp(ctx context.Context, until uint64) error {
	time.Sleep(testTerm / 6)
	return f.follower.CatchUp(ctx, until)
}

// TestRequestIsRefusedOnceTheMemberOwnsTheShard: it arrived while the member took the shard.
func TestRequestIsRefusedOnceTheMemberOwnsTheShard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := startCluster(t, 1, func(o Options) Options {
			o.follow = func(s replicated.Stream, r replicated.Replica, f replicated.FollowerOptions) follower {
				return slowFollower{replicated.NewFollower(s, r, f)}
			}
			return o
		}).members[0]
		for began := time.Now(); m.state(0) != stateTaking && time.Since(began) < startup; {
			time.Sleep(testTerm / 60)
		}
		wantState(t, m, 0, stateTaking)
		ctx, cancel := context.WithTimeout(t.Context(), startup)
		defer cancel()
		if err := m.node().Recover(ctx, admin.Recovery{Shard: new(0), From: m.name}); err == nil || !strings.Contains(err.Error(), "owns it") {
			t.Errorf("error %v, want that the member owns the shard", err)
		}
		wantState(t, m, 0, stateOwning)
	})
}
