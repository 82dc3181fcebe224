package cluster

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/admin"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// startCluster starts a simulated cluster without faults and with all clocks alike, for tests of
// single steps. change, which may be nil, changes the options of all members.
func startCluster(t *testing.T, members int, change func(o Options) Options) *simulation {
	t.Helper()
	s := newSimulation(1)
	s.servers = replicatedtest.New(1, replicatedtest.Faults{Delay: time.Millisecond})
	s.create()
	if change != nil {
		s.change = change
	}
	s.members = s.members[:members]
	if os.Getenv("SIMULATION_LOG") != "" {
		s.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	for _, m := range s.members {
		m.rate = 1
		m.start()
	}
	t.Cleanup(func() {
		for _, m := range s.members {
			m.gate().crash()
			m.stop()
		}
	})
	return s
}

// withoutSnapshots makes snapshots rarer than a test is long.
func withoutSnapshots(o Options) Options {
	o.snapshots = replicated.SnapshotterOptions{}
	return o
}

// startup is until members have started, follow, and own shards.
const startup = 2 * testTerm

// steady is until every shard is where it should be.
const steady = minUptime + startup + simShards*2*handoverInterval

// owner returns the member that owns the shard; nil: none, or several do.
func (s *simulation) owner(shard int) (owner *simMember) {
	for _, m := range s.members {
		if m.node().shards[shard].owned() {
			if owner != nil {
				return nil
			}
			owner = m
		}
	}
	return owner
}

// state returns what a member does with the shard.
func (m *simMember) state(shard int) state {
	s := m.node().shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// byRank returns the members in the order in which they should own the shard.
func (s *simulation) byRank(shard int) (ranked []*simMember) {
	var all []member
	for _, m := range s.members {
		all = append(all, member{ID: m.name})
	}
	for _, r := range rank(all, simShards)[shard] {
		for _, m := range s.members {
			if m.name == r.ID {
				ranked = append(ranked, m)
			}
		}
	}
	return ranked
}

func wantState(t *testing.T, m *simMember, shard int, want state) {
	t.Helper()
	if got := m.state(shard); got != want {
		t.Errorf("shard %d: %s is %s, want %s", shard, m.name, got, want)
	}
}

func TestFollowerTakesAReleasedShardAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, nil)
		time.Sleep(steady)
		ranked := s.byRank(0)
		ranked[0].stop()
		time.Sleep(testTerm / 30)
		wantState(t, ranked[1], 0, stateOwning)
	})
}

func TestFollowerTakesTheShardOfADeadOwnerAfterItsLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, nil)
		time.Sleep(steady)
		ranked := s.byRank(0)
		ranked[0].crash()
		time.Sleep(testTerm * 5 / 6) // its last record is at most a third of a term old
		wantState(t, ranked[1], 0, stateFollowing)
		time.Sleep(testTerm * 2 / 3)
		wantState(t, ranked[1], 0, stateOwning)
		wantState(t, ranked[2], 0, stateFollowing)
	})
}

func TestMemberWhoseStateFailsLeavesTheShardToOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first := (&simulation{members: newSimulation(1).members[:3]}).byRank(0)[0].name
		took := 0
		s := startCluster(t, 3, func(o Options) Options {
			if o.Member == first {
				o.Own = func(_ context.Context, w Ownership) error {
					if w.Shard == 0 {
						took++
					}
					return errors.New("the disk is broken")
				}
			}
			return o
		})
		time.Sleep(10 * time.Minute)
		ranked := s.byRank(0)
		wantState(t, ranked[1], 0, stateOwning)
		if took < 2 || took > 8 {
			t.Errorf("a member with a broken disk took the shard %d times in ten minutes", took)
		}
		c := ranked[0].node().Cluster()
		if got := c.Shards[0].Error; !strings.Contains(got, "the disk is broken") {
			t.Errorf("its status has the error %q", got)
		}
	})
}

func TestLogOfANewerVersionIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, nil)
		time.Sleep(steady)
		ranked := s.byRank(0)
		owner, other := ranked[0], ranked[1]
		owner.stop()
		other.stop()
		stream := s.servers.Stream("newer", 0)
		last, err := stream.Last(t.Context())
		require.NoError(t, err)
		take := replicated.Message{ID: "newer.99.1.1/1", Kind: replicated.KindTake, Data: []byte(`{"format":200,"layout":200}`)}
		require.NoError(t, stream.Publish(last, take, func(uint64, error) {}))
		other.start()
		owner.start()
		time.Sleep(5 * testTerm)
		wantState(t, owner, 0, stateAway)
		wantState(t, other, 0, stateAway)
		if got := owner.node().Cluster().Shards[0].Error; !strings.Contains(got, "newer") {
			t.Errorf("status has the error %q", got)
		}
		if s.owner(1) == nil {
			t.Error("shard 1 has no owner")
		}
	})
}

func TestFileThatDoesNotFitTheLogIsRestored(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(f *simFile){
		"another state": func(f *simFile) { f.state.Sum++ },
		"damaged":       func(f *simFile) { f.damaged = true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := startCluster(t, 2, withoutSnapshots)
				time.Sleep(steady)
				follower := s.byRank(0)[1]
				follower.stop()
				harm(follower.disk.files["state.0"])
				follower.start()
				time.Sleep(startup)
				wantState(t, follower, 0, stateFollowing)
				follower.stop()
				f, err := follower.disk.openFile("state.0")
				require.NoError(t, err)
				state := f.read()
				s.mu.Lock() // the owner goes on
				defer s.mu.Unlock()
				if state.Number == 0 || s.acks[0][state.Number] != state {
					t.Errorf("the file has %v, which is not what was acknowledged", state)
				}
			})
		})
	}
}

func TestHandover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, nil)
		time.Sleep(steady)
		ranked := s.byRank(0)
		zero, many := 0, simShards
		for name, c := range map[string]struct {
			what admin.Handover
			want string
		}{
			"a shard of another member": {admin.Handover{Shard: &zero}, "ask that member"},
			"another member":            {admin.Handover{Member: ranked[0].name}, "ask that member"},
			"an unknown member":         {admin.Handover{Member: "x"}, "unknown member"},
			"an unknown shard":          {admin.Handover{Shard: &many}, "unknown shard"},
		} {
			if err := ranked[1].node().Handover(t.Context(), c.what); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}

		require.NoError(t, ranked[0].node().Handover(t.Context(), admin.Handover{Shard: &zero}))
		wantState(t, ranked[1], 0, stateOwning)
		time.Sleep(minUptime + 4*handoverInterval)
		wantState(t, ranked[1], 0, stateOwning) // it does not go back

		drained := s.owner(1)
		require.NoError(t, drained.node().Handover(t.Context(), admin.Handover{Member: drained.name}))
		time.Sleep(minUptime + simShards*2*handoverInterval)
		for shard := range simShards {
			if got := s.owner(shard); got == nil || got == drained {
				t.Errorf("shard %d: %s owns it after it handed over all shards", shard, drained.name)
			}
		}
	})
}

func TestHandoverNeedsASuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 1, nil)
		time.Sleep(startup)
		err := s.members[0].node().Handover(t.Context(), admin.Handover{Member: s.members[0].name})
		if err == nil || !strings.Contains(err.Error(), "no other member follows") {
			t.Error(err)
		}
		wantState(t, s.members[0], 0, stateOwning)
	})
}

// TestHandoverWaitsForASuccessor: a member that has just started follows and has caught up a
// moment later, and what it publishes is late.
func TestHandoverWaitsForASuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, nil)
		time.Sleep(startup)
		s.members[1].stop()
		time.Sleep(startup)
		what := admin.Handover{Member: s.members[0].name}

		canceled, cancel := context.WithTimeout(t.Context(), testTerm/10)
		defer cancel()
		if err := s.members[0].node().Handover(canceled, what); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no other member follows") {
			t.Errorf("without another member: %v", err)
		}
		s.members[1].start()
		require.NoError(t, s.members[0].node().Handover(t.Context(), what))
		for shard := range simShards {
			wantState(t, s.members[1], shard, stateOwning)
		}
	})
}

// TestStopGivesUpAppendsThatWaitForTheServers: an owner that cannot reach the servers stops
// within StopTimeout.
func TestStopGivesUpAppendsThatWaitForTheServers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 1, nil)
		time.Sleep(startup)
		m := s.members[0]
		s.servers.Cut(m.name, true)
		m.gate().setCut(true)
		time.Sleep(testTerm)
		began := time.Now()
		m.stop()
		if took := time.Since(began); took > 2*time.Second+2*testTerm+time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestLogThatLostAMessageIsFollowedFromASnapshotOfTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, withoutSnapshots)
		time.Sleep(steady)
		ranked := s.byRank(0)
		owner, follower := ranked[0], ranked[1]
		follower.stop()
		time.Sleep(5 * testTerm)
		messages := s.servers.Messages(0)
		s.servers.Lose(0, messages[len(messages)-3].Seq)
		follower.start()
		time.Sleep(startup)
		wantState(t, follower, 0, stateFollowing)
		wantState(t, owner, 0, stateOwning)
		time.Sleep(testTerm / 2) // the follower gets what was acknowledged
		owner.crash()
		time.Sleep(3 * testTerm)
		wantState(t, follower, 0, stateOwning)
		s.judge(t)
	})
}
