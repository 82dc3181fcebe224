package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/lease"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
)

const (
	simMembers = 5
	simShards  = 4
)

// simulation is a cluster whose members, clocks, network and servers fail as a seed says.
type simulation struct {
	seed     uint64
	faults   replicatedtest.Faults // of the servers while there are faults
	servers  *replicatedtest.Servers
	registry *fakeRegistry
	members  []*simMember
	log      *slog.Logger
	// change changes the options of all members.
	change    func(o Options) Options
	kinds     []fault
	losesDisk float64     // chance of a member that crashes
	purgesAll atomic.Bool // see gatedStream

	mu     sync.Mutex
	random *rand.Rand
	leases [simShards][]*lease.Lease        // of all owners there were
	before [simShards]map[simState]simState // of every record that was made
	acks   [simShards]map[uint64]simState   // what was acknowledged, by number
	busy   map[*simMember]bool              // it has a fault
	active sync.WaitGroup                   // faults
	wrong  []string                         // what must not happen
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{
		seed: seed, faults: someFaults, registry: newFakeRegistry(), log: discard,
		random: rand.New(rand.NewPCG(seed, 1)), change: func(o Options) Options { return o },
		busy: make(map[*simMember]bool), kinds: faultsOfMembers, losesDisk: 0.3,
	}
	for i := range simShards {
		s.before[i], s.acks[i] = make(map[simState]simState), make(map[uint64]simState)
	}
	for i := range simMembers {
		// The slowest and the fastest clock differ by less than a quarter.
		s.members = append(s.members, &simMember{
			sim: s, name: fmt.Sprint("m", i), rate: 0.9 + 0.055*float64(i), disk: newSimDisk(),
		})
	}
	return s
}

// create creates the cluster, whose logs are empty.
func (s *simulation) create() {
	err := Init(context.Background(), s.registry, "sim", simShards, checkpoint.Layout, func(id string) error {
		for shard := range simShards {
			log, err := replicated.Take(context.Background(), s.servers.Stream("init", shard), 0, replicated.Options{
				Context: context.Background(), Owner: "init-" + id, Cluster: id, Clock: lease.System(),
			})
			if err == nil {
				err = log.Release(context.Background())
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
}

// fail notes what must not happen.
func (s *simulation) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *simulation) chance(p float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.Float64() < p
}

func (s *simulation) between(from, to time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return from + time.Duration(s.random.Int64N(int64(to-from)))
}

func (s *simulation) pick(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// began notes the lease of a new owner.
func (s *simulation) began(o Ownership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[o.Shard] = append(s.leases[o.Shard], o.Lease)
}

// made notes a record before it is appended.
func (s *simulation) made(shard int, r simRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before[shard][r.After] = *r.Before
}

// acked notes a record that the log acknowledged. There is one of each number.
func (s *simulation) acked(shard int, r simRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, twice := s.acks[shard][r.After.Number]; twice && other != r.After {
		s.wrong = append(s.wrong, fmt.Sprintf("shard %d: two records with number %d were acknowledged", shard, r.After.Number))
	}
	s.acks[shard][r.After.Number] = r.After
}

// watch looks for two owners of a shard that both have a lease.
func (s *simulation) watch(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(25 * time.Millisecond):
		}
		s.mu.Lock()
		leases := s.leases
		s.mu.Unlock()
		for shard, all := range leases {
			valid := 0
			for _, l := range all {
				if l.Left() > 0 {
					valid++
				}
			}
			if valid > 1 {
				s.fail("shard %d: %d members have a lease", shard, valid)
			}
		}
	}
}

// owned returns the shards with an owner whose lease is valid.
func (s *simulation) owned() (n int) {
	s.mu.Lock()
	leases := s.leases
	s.mu.Unlock()
	for _, all := range leases {
		for _, l := range all {
			if l.Left() > 0 {
				n++
				break
			}
		}
	}
	return n
}

// someFaults are those of the network while a simulation runs.
var someFaults = replicatedtest.Faults{
	LoseCopies: 0.02, LoseAnswers: 0.03, Repeat: 0.02, LateCopies: 0.01, FailReads: 0.01, Delay: 20 * time.Millisecond, Old: time.Second,
}

// fault is something that happens to a member and lasts for a while.
type fault func(s *simulation, m *simMember, length time.Duration)

// faultsOfMembers are chosen from, each as often as it is listed.
var faultsOfMembers = []fault{pause, pause, cutOff, cutFromRegistry, stallDisk, crash, stopAndStart}

func pause(_ *simulation, m *simMember, length time.Duration) {
	m.gate().pause()
	time.Sleep(length)
	m.gate().resume()
}

func cutOff(s *simulation, m *simMember, length time.Duration) {
	m.gate().setCut(true)
	s.servers.Cut(m.name, true)
	time.Sleep(length)
	m.gate().setCut(false)
	s.servers.Cut(m.name, false)
}

func cutFromRegistry(_ *simulation, m *simMember, length time.Duration) {
	m.gate().setCut(true)
	time.Sleep(length)
	m.gate().setCut(false)
}

func stallDisk(_ *simulation, m *simMember, length time.Duration) {
	m.stall().pause()
	time.Sleep(length)
	m.stall().resume()
}

func crash(s *simulation, m *simMember, length time.Duration) {
	if s.survives(m) {
		crashAnyway(s, m, length)
	}
}

// crashAnyway crashes the member, some of the time with the loss of its disk.
func crashAnyway(s *simulation, m *simMember, length time.Duration) {
	m.crash()
	if s.chance(s.losesDisk) {
		m.disk = newSimDisk()
	}
	time.Sleep(length)
	m.start()
}

func stopAndStart(s *simulation, m *simMember, length time.Duration) {
	if s.survives(m) {
		m.stop()
		time.Sleep(length / 4)
		m.start()
	}
}

// survives reports whether without m every shard has a member left that owns it, or follows
// it and has caught up: if both are lost at once, the shard is owned again only later.
func (s *simulation) survives(m *simMember) bool {
	for shard := range simShards {
		left := false
		for _, other := range s.members {
			r, _ := other.node().shards[shard].report()
			left = left || other != m && !s.isBusy(other) && (r.Role == roleOwner && r.LeaseMS > 0 || r.CaughtUp)
		}
		if !left {
			return false
		}
	}
	return true
}

func (s *simulation) isBusy(m *simMember) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[m]
}

// disturb begins a fault, of the servers or of a member that has none.
func (s *simulation) disturb() {
	length := s.between(300*time.Millisecond, 20*time.Second)
	if s.chance(0.15) {
		s.active.Go(func() {
			s.servers.ChangeLeader(s.pick(simShards), length/3)
			time.Sleep(length / 3)
		})
		return
	}
	m, f := s.members[s.pick(len(s.members))], s.kinds[s.pick(len(s.kinds))]
	if s.isBusy(m) {
		return
	}
	s.setBusy(m, true)
	s.active.Go(func() {
		f(s, m, length)
		s.setBusy(m, false)
	})
}

func (s *simulation) setBusy(m *simMember, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[m] = busy
}

// run runs the members through length of faults, and returns what must not happen.
func (s *simulation) run(length time.Duration) []string {
	s.servers = replicatedtest.New(s.seed, replicatedtest.Faults{})
	s.create()
	s.servers.SetFaults(s.faults)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(done) })
	for _, m := range s.members {
		m.start()
	}
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(s.between(100*time.Millisecond, 4*time.Second))
		s.disturb()
	}
	s.active.Wait()
	s.servers.SetFaults(replicatedtest.Faults{Delay: 5 * time.Millisecond, IgnoreExpectations: s.faults.IgnoreExpectations})

	time.Sleep(2 * testTerm)
	if n := s.owned(); n != simShards {
		s.fail("%d of %d shards have an owner two terms after the last fault", n, simShards)
	}
	time.Sleep(2*testTerm + minUptime*5/4 + simShards*2*handoverInterval)
	s.checkOwners()
	var stopping sync.WaitGroup
	for _, m := range s.members {
		stopping.Go(m.stop)
	}
	stopping.Wait()
	close(done)
	watching.Wait()
	for shard := range simShards {
		s.checkLog(shard)
		s.checkState(shard)
	}
	return s.wrong
}

// judge stops all members and reports what must not happen.
func (s *simulation) judge(t *testing.T) {
	t.Helper()
	for _, m := range s.members {
		m.stop()
	}
	for shard := range simShards {
		s.checkState(shard)
	}
	for _, wrong := range s.wrong {
		t.Error(wrong)
	}
}

// checkOwners expects that every shard is where it should be.
func (s *simulation) checkOwners() {
	var all []member
	for _, m := range s.members {
		all = append(all, member{ID: m.name})
	}
	for shard, ranked := range rank(all, simShards) {
		want := ranked[0].ID
		for _, m := range s.members {
			if got := m.node().shards[shard].owned(); got != (m.name == want) {
				s.fail("shard %d: %s owns it: %v, but %s should own it", shard, m.name, got, want)
			}
		}
	}
}

// checkLog expects no record of another owner behind a take.
func (s *simulation) checkLog(shard int) {
	owner := ""
	for _, m := range s.servers.Messages(shard) {
		by := m.ID[:strings.LastIndexByte(m.ID[:strings.LastIndexByte(m.ID, '.')], '.')] // without number and part
		switch {
		case m.Kind == replicated.KindTake || owner == "":
			owner = by
		case by != owner:
			s.fail("shard %d: message %d is of %s, behind the take of %s", shard, m.Seq, by, owner)
		}
	}
}

// checkState expects all that was acknowledged in the file of the last owner.
func (s *simulation) checkState(shard int) {
	messages := s.servers.Messages(shard)
	if len(messages) == 0 {
		s.fail("shard %d: its log is empty", shard)
		return
	}
	last, _, _ := strings.Cut(messages[len(messages)-1].ID, ".")
	var state simState
	for _, m := range s.members {
		if m.name == last {
			f, err := m.disk.openFile(fmt.Sprint("state.", shard))
			if err != nil {
				s.fail("shard %d: %v", shard, err)
				return
			}
			state = f.read()
		}
	}
	s.mu.Lock()
	acks, before := s.acks[shard], s.before[shard]
	s.mu.Unlock()
	if len(acks) < 10 {
		s.fail("shard %d: only %d records were acknowledged", shard, len(acks))
	}
	for number := range acks {
		if number > state.Number {
			s.fail("shard %d: record %d was acknowledged, the state ends with %d", shard, number, state.Number)
			return
		}
	}
	for ; state != (simState{}); state = before[state] {
		if acked, was := acks[state.Number]; was && acked != state {
			s.fail("shard %d: record %d was acknowledged and is not in the state", shard, state.Number)
			return
		}
	}
}

// TestSimulation runs clusters through faults that a seed chooses. To run one again, set
// SIMULATION_SEED; SIMULATION_LOG prints what its members log.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSimulation(seed)
				if os.Getenv("SIMULATION_LOG") != "" {
					s.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
				}
				for _, wrong := range s.run(90 * time.Second) {
					t.Error(wrong)
				}
			})
		})
	}
}

// TestStateSurvivesAllDisks: what was acknowledged is in the snapshots and the log, unless
// too much of the log was purged.
func TestStateSurvivesAllDisks(t *testing.T) {
	t.Parallel()
	for name, purgesAll := range map[string]bool{"": false, "purged one too far": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := startCluster(t, 2, nil)
				s.purgesAll.Store(purgesAll)
				time.Sleep(2 * steady)
				for _, m := range s.members {
					m.crash()
					m.disk = newSimDisk()
				}
				for _, m := range s.members {
					m.start()
				}
				time.Sleep(3 * testTerm)
				if n := s.owned(); (n == simShards) == purgesAll {
					t.Errorf("%d shards have an owner", n)
				}
				if purgesAll {
					return
				}
				s.judge(t)
			})
		})
	}
}

// seeds returns n seeds, which are other ones in every run, fewer under -short.
func seeds(t *testing.T, n int) (all []uint64) {
	if set := os.Getenv("SIMULATION_SEED"); set != "" {
		seed, err := strconv.ParseUint(set, 10, 64)
		require.NoError(t, err)
		return []uint64{seed}
	}
	for range slowtest.Times(n) {
		all = append(all, rand.Uint64())
	}
	return all
}

// sabotaged is a follower that reports what is not so.
type sabotaged struct {
	*replicated.Follower
	change       func(f *replicated.FollowerStatus)
	skipsCatchUp bool // it does not wait for what it has to catch up with
}

func (f sabotaged) Status() replicated.FollowerStatus {
	status := f.Follower.Status()
	f.change(&status)
	return status
}

func (f sabotaged) CatchUp(ctx context.Context, until uint64) error {
	if f.skipsCatchUp {
		return nil
	}
	return f.Follower.CatchUp(ctx, until)
}

// follow returns a change of options that sabotages followers.
func follow(skipsCatchUp bool, change func(f *replicated.FollowerStatus)) func(o Options) Options {
	return func(o Options) Options {
		o.follow = func(s replicated.Stream, r replicated.Replica, f replicated.FollowerOptions) follower {
			return sabotaged{replicated.NewFollower(s, r, f), change, skipsCatchUp}
		}
		return o
	}
}

// TestSimulationCatches takes away a part of the fencing, and expects the simulation to find
// out.
func TestSimulationCatches(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	for name, c := range map[string]struct {
		sabotage func(s *simulation)
		want     string
	}{
		"streams that ignore expectations": {func(s *simulation) {
			s.faults.IgnoreExpectations = true
		}, "behind the take of"},
		"a take before the lease of the owner is over": {func(s *simulation) {
			s.change = follow(false, func(f *replicated.FollowerStatus) {
				if f.Quiet > 0 {
					f.Quiet += testTerm
				}
			})
		}, "members have a lease"},
		"a take before the replica has caught up": {func(s *simulation) {
			s.kinds = []fault{stallDisk, stallDisk, crashAnyway}
			s.change = follow(true, func(f *replicated.FollowerStatus) { f.Seen, f.Trail = max(f.Seen, f.Last), "" })
		}, "were acknowledged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range seeds(t, 10) {
				var found []string
				synctest.Test(t, func(*testing.T) {
					s := newSimulation(seed)
					c.sabotage(s)
					found = s.run(time.Minute)
				})
				if slices.ContainsFunc(found, func(wrong string) bool { return strings.Contains(wrong, c.want) }) {
					return
				}
				t.Logf("seed %d: not caught, but %q", seed, found)
			}
			t.Error("not caught")
		})
	}
}
