package cluster

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// startCluster starts a simulated cluster without faults and with all clocks alike, for tests of
// single steps, and waits until it has an owner. change, which may be nil, changes the options of all
// members.
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
	time.Sleep(startup)
	return s
}

// withoutSnapshots makes snapshots rarer than a test is long.
func withoutSnapshots(o Options) Options {
	o.snapshots = replicated.SnapshotterOptions{}
	return o
}

// startup is until members have started and follow, and one of them owns the log.
const startup = 2 * testTerm

// owner returns the member that owns the log; nil: none, or several do.
func (s *simulation) owner() (owner *simMember) {
	for _, m := range s.members {
		if m.owns() {
			if owner != nil {
				return nil
			}
			owner = m
		}
	}
	return owner
}

// roles returns the owner and the standbys.
func (s *simulation) roles(t *testing.T) (owner *simMember, standbys []*simMember) {
	t.Helper()
	owner = s.owner()
	require.True(t, owner != nil, "the log does not have one owner")
	for _, m := range s.members {
		if m != owner {
			standbys = append(standbys, m)
		}
	}
	return owner, standbys
}

func (m *simMember) owns() bool {
	n := m.node()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ownership != nil
}

// state returns what a member does.
func (m *simMember) state() state { return state(m.node().Report().State) }

func wantState(t *testing.T, m *simMember, want state) {
	t.Helper()
	assert.Equal(t, m.state(), want, m.name, "is")
}

func TestStandbyTakesAReleasedLogAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, nil)
		owner, _ := s.roles(t)
		owner.stop()
		time.Sleep(testTerm / 10)
		next := s.owner()
		assert.True(t, next != nil && next != owner, "no standby owns the log")
	})
}

func TestStandbyTakesTheLogOfADeadOwnerAfterItsLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, nil)
		owner, standbys := s.roles(t)
		owner.crash()
		time.Sleep(testTerm * 5 / 6) // its last record is at most a third of a term old
		for _, m := range standbys {
			wantState(t, m, stateFollowing)
		}
		time.Sleep(testTerm * 3 / 4)
		next := s.owner()
		assert.True(t, next != nil && next != owner, "no standby owns the log")
	})
}

func TestMemberWhoseStateFailsLeavesTheLogToOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var took atomic.Int64
		s := startCluster(t, 1, func(o Options) Options {
			if o.Member == "m0" {
				o.Own = func(context.Context, Ownership) error {
					took.Add(1)
					return errors.New("the disk is broken")
				}
			}
			return o
		})
		assert.True(t, took.Load() != 0, "the only member did not take the log")
		other := s.join("other")
		time.Sleep(10 * time.Minute)
		wantState(t, other, stateOwning)
		n := took.Load()
		assert.True(t, n <= 8, "a member with a broken disk took the log", n, "times")
	})
}

func TestLogOfANewerVersionIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, nil)
		for _, m := range s.members {
			m.stop()
		}
		stream := s.servers.Stream("newer", s.generation())
		last := require.Value(stream.Last(t.Context()))(t)
		take := replicated.Message{ID: "newer.99.1.1/1", Kind: replicated.KindTake, Data: []byte(`{"format":200,"layout":200}`)}
		require.NoError(t, stream.Publish(last, take, func(uint64, error) {}))
		for _, m := range s.members {
			m.start()
		}
		time.Sleep(5 * testTerm)
		for _, m := range s.members {
			wantState(t, m, stateAway)
			assert.Contains(t, strings.Join(m.node().NotReady(), "; "), "newer", m.name, "is not ready because of")
		}
	})
}

func TestCopyThatDoesNotFitTheLogIsRestored(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(f *simFile){
		"another state": func(f *simFile) { f.state.Sum++ },
		"damaged":       func(f *simFile) { f.damaged = true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := startCluster(t, 2, withoutSnapshots)
				time.Sleep(5 * testTerm)
				_, standbys := s.roles(t)
				standby := standbys[0]
				standby.stop()
				harm(standby.disk.files[simPath])
				standby.start()
				time.Sleep(startup)
				wantState(t, standby, stateFollowing)
				standby.stop()
				f := require.Value(standby.disk.openFile(simPath))(t)
				state := f.read()
				s.mu.Lock() // the owner goes on
				defer s.mu.Unlock()
				assert.True(t, state.Number != 0 && s.acks[state.Number] == state, "the copy", state, "which is not what was acknowledged")
			})
		})
	}
}

func TestHandover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, nil)
		owner, standbys := s.roles(t)
		assert.ErrorContains(t, standbys[0].node().Handover(t.Context()), "ask the owner", "a standby hands over")
		began := time.Now()
		require.NoError(t, owner.node().Handover(t.Context()))
		took := time.Since(began)
		assert.True(t, took <= testTerm/2, "it took", took)
		next, _ := s.roles(t)
		assert.True(t, next != owner, "the owner handed over to itself")
		wantState(t, owner, stateFollowing)
	})
}

func TestHandoverNeedsASuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 1, nil)
		err := s.members[0].node().Handover(t.Context())
		assert.ErrorContains(t, err, "no standby is level")
		wantState(t, s.members[0], stateOwning)
	})
}

// TestHandoverWaitsForASuccessor: a member that has just started follows and has caught up a
// moment later.
func TestHandoverWaitsForASuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, nil)
		owner, standbys := s.roles(t)
		standbys[0].stop()
		time.Sleep(startup)

		canceled, cancel := context.WithTimeout(t.Context(), testTerm/10)
		defer cancel()
		err := owner.node().Handover(canceled)
		assert.True(t, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "no standby is level"), "without another member", err)
		standbys[0].start()
		require.NoError(t, owner.node().Handover(t.Context()))
		wantState(t, standbys[0], stateOwning)
	})
}

// TestStopGivesUpAppendsThatWaitForTheServers: an owner that cannot reach the servers stops
// within StopTimeout.
func TestStopGivesUpAppendsThatWaitForTheServers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 1, nil)
		m := s.members[0]
		s.servers.Cut(m.name, true)
		m.gate().setCut(true)
		time.Sleep(testTerm)
		began := time.Now()
		m.stop()
		took := time.Since(began)
		assert.True(t, took <= 2*time.Second+2*testTerm+time.Second, "stopping took", took)
	})
}

func TestLogThatLostAMessageIsFollowedFromASnapshotOfTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, withoutSnapshots)
		owner, standbys := s.roles(t)
		standby := standbys[0]
		standby.stop()
		time.Sleep(5 * testTerm)
		messages := s.messages()
		s.servers.Lose(s.generation(), messages[len(messages)-3].Seq)
		standby.start()
		time.Sleep(4 * startup)
		wantState(t, standby, stateFollowing)
		wantState(t, owner, stateOwning)
		time.Sleep(testTerm / 2) // the standby gets what was acknowledged
		owner.crash()
		time.Sleep(3 * testTerm)
		wantState(t, standby, stateOwning)
		s.judge(t)
	})
}

// TestAClusterThatCrashedAsAWholeIsOwnedAgainAboutALeaseLater: nobody waits for its predecessors.
func TestAClusterThatCrashedAsAWholeIsOwnedAgainAboutALeaseLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, nil)
		for _, m := range s.members {
			m.crash()
		}
		for _, m := range s.members {
			m.start()
		}
		began := time.Now()
		for s.owner() == nil && time.Since(began) < 20*testTerm {
			time.Sleep(testTerm / 60)
		}
		took := time.Since(began)
		assert.True(t, took <= 2*testTerm, "the log has an owner only after", took, "with a lease of", testTerm)
	})
}

// TestAMemberWhoseConfigurationDiffersIsNotReady: it would deliver otherwise once it owns the log.
func TestAMemberWhoseConfigurationDiffersIsNotReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		registries := map[string]*prometheus.Registry{"m0": prometheus.NewRegistry(), "m1": prometheus.NewRegistry()}
		s := startCluster(t, 2, func(o Options) Options {
			o.ConfigHash = func() string { return o.Member }
			o.Metrics = NewMetrics(registries[o.Member])
			return o
		})
		owner, standbys := s.roles(t)
		for m, want := range map[*simMember]string{owner: "1", standbys[0]: "0"} {
			assert.Contains(t, exposition(t, registries[m.name]), "\nndrbridge_cluster_following "+want+"\n", "the metric of", m.name, "is not", want)
		}
		assert.Empty(t, owner.node().NotReady(), "the owner is not ready")
		assert.Contains(t, strings.Join(standbys[0].node().NotReady(), "; "), "differs from that of the owner, "+owner.name, "the standby is not ready because of")
	})
}

// TestAMemberThatNATSDoesNotAnswerIsNotReady: an owner as soon as its lease is over, a standby soon.
func TestAMemberThatNATSDoesNotAnswerIsNotReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, nil)
		for _, m := range s.members {
			s.servers.Cut(m.name, true)
		}
		time.Sleep(2 * testTerm)
		for _, m := range s.members {
			assert.True(t, len(m.node().NotReady()) != 0, m.name, "is ready")
		}
		for _, m := range s.members {
			s.servers.Cut(m.name, false)
		}
		time.Sleep(2 * testTerm)
		for _, m := range s.members {
			assert.Empty(t, m.node().NotReady(), m.name, "is not ready")
		}
	})
}
