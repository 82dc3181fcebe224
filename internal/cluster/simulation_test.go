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

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/lease"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
)

const simMembers = 5

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
	begun  map[uint64]bool       // generations that were made
	leases []*lease.Lease        // of all owners there were
	before map[simState]simState // of every record that was made
	acks   map[uint64]simState   // what was acknowledged, by number
	busy   map[*simMember]bool   // it has a fault
	active sync.WaitGroup        // faults
	wrong  []string              // what must not happen
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{
		seed: seed, faults: someFaults, registry: newFakeRegistry(), log: discard,
		random: rand.New(rand.NewPCG(seed, 1)), change: func(o Options) Options { return o },
		busy: make(map[*simMember]bool), kinds: faultsOfMembers, losesDisk: 0.3,
		begun: make(map[uint64]bool), before: make(map[simState]simState), acks: make(map[uint64]simState),
	}
	for i := range simMembers {
		// The slowest and the fastest clock differ by less than a quarter.
		s.members = append(s.members, &simMember{
			sim: s, name: fmt.Sprint("m", i), rate: 0.9 + 0.055*float64(i), disk: newSimDisk(),
		})
	}
	return s
}

// create creates the cluster, whose log is empty.
func (s *simulation) create() {
	g := Generations{Name: "sim", Registry: s.registry, Storage: s.storage("operator"), Clock: lease.System(), Term: testTerm}
	if err := g.Init(context.Background(), nil, func(int64) {}); err != nil {
		panic(err)
	}
}

// storage opens generations as a member reaches them.
func (s *simulation) storage(member string) OpenStorage {
	return func(_ context.Context, generation uint64, create bool) (Storage, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.begun[generation] = s.begun[generation] || create; !s.begun[generation] {
			return Storage{}, replicated.ErrLogLost
		}
		return Storage{Stream: s.servers.Stream(member, generation), Snapshots: s.servers.Snapshots(member, generation)}, nil
	}
}

// generation returns the generation of the log in use; 0: there is none.
func (s *simulation) generation() uint64 {
	used, _, err := getSettings(context.Background(), s.registry, "sim")
	if err != nil {
		return 0
	}
	return used.Generation
}

// messages returns the log in use.
func (s *simulation) messages() []replicatedtest.Stored { return s.servers.Messages(s.generation()) }

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
	s.leases = append(s.leases, o.Lease)
}

// made notes a record before it is appended.
func (s *simulation) made(r simRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before[r.After] = *r.Before
}

// acked notes a record that the log acknowledged. There is one of each number.
func (s *simulation) acked(r simRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, twice := s.acks[r.After.Number]; twice && other != r.After {
		s.wrong = append(s.wrong, fmt.Sprintf("two records with number %d were acknowledged", r.After.Number))
	}
	s.acks[r.After.Number] = r.After
}

// watch looks for two owners that both have a lease.
func (s *simulation) watch(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(25 * time.Millisecond):
		}
		if valid := s.valid(); valid > 1 {
			s.fail("%d members have a lease", valid)
		}
	}
}

// valid returns the number of valid leases.
func (s *simulation) valid() (n int) {
	s.mu.Lock()
	leases := s.leases
	s.mu.Unlock()
	for _, l := range leases {
		if l.Left() > 0 {
			n++
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

// survives reports whether without m a member is left that owns the log, or follows it and has
// caught up: if all such are lost at once, the log is owned again only later.
func (s *simulation) survives(m *simMember) bool {
	return slices.ContainsFunc(s.members, func(other *simMember) bool {
		r := other.node().Report()
		return other != m && !s.isBusy(other) && (r.LeaseMS > 0 || r.CaughtUp)
	})
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
			s.servers.ChangeLeader(s.generation(), length/3)
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
	if n := s.valid(); n != 1 {
		s.fail("%d members have a lease two terms after the last fault", n)
	}
	var stopping sync.WaitGroup
	for _, m := range s.members {
		stopping.Go(m.stop)
	}
	stopping.Wait()
	close(done)
	watching.Wait()
	s.checkLog()
	s.checkState()
	return s.wrong
}

// judge stops all members and reports what must not happen.
func (s *simulation) judge(t *testing.T) {
	t.Helper()
	for _, m := range s.members {
		m.stop()
	}
	s.checkState()
	for _, wrong := range s.wrong {
		t.Error(wrong)
	}
}

// checkLog expects no record of another owner behind a take.
func (s *simulation) checkLog() {
	owner := ""
	for _, m := range s.messages() {
		by := m.ID[:strings.LastIndexByte(m.ID[:strings.LastIndexByte(m.ID, '.')], '.')] // without number and part
		switch {
		case m.Kind == replicated.KindTake || owner == "":
			owner = by
		case by != owner:
			s.fail("message %d is of %s, behind the take of %s", m.Seq, by, owner)
		}
	}
}

// checkState expects all that was acknowledged in the file of the last owner.
func (s *simulation) checkState() {
	messages := s.messages()
	if len(messages) == 0 {
		s.fail("the log is empty")
		return
	}
	last, _, _ := strings.Cut(messages[len(messages)-1].ID, ".")
	var state simState
	for _, m := range s.members {
		if m.name == last {
			f, err := m.disk.openFile(simPath)
			if err != nil {
				s.fail("open the file of the last owner: %v", err)
				return
			}
			state = f.read()
		}
	}
	s.mu.Lock()
	acks, before := s.acks, s.before
	s.mu.Unlock()
	if len(acks) < 10 {
		s.fail("only %d records were acknowledged", len(acks))
	}
	for number := range acks {
		if number > state.Number {
			s.fail("record %d was acknowledged, the state ends with %d", number, state.Number)
			return
		}
	}
	for ; state != (simState{}); state = before[state] {
		if acked, was := acks[state.Number]; was && acked != state {
			s.fail("record %d was acknowledged and is not in the state", state.Number)
			return
		}
	}
}

// TestSimulation runs clusters through faults that a seed chooses. To run one again, set
// SIMULATION_SEED; SIMULATION_LOG prints what its members log.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 20) {
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
				time.Sleep(40 * testTerm)
				for purgesAll && !s.lacksRecords(t) {
					time.Sleep(testTerm / 10)
				}
				for _, m := range s.members {
					m.crash()
					m.disk = newSimDisk()
				}
				for _, m := range s.members {
					m.start()
				}
				time.Sleep(3 * testTerm)
				owned := s.owner() != nil
				assert.True(t, owned != purgesAll, "the log has an owner", owned)
				if purgesAll {
					return
				}
				s.judge(t)
			})
		})
	}
}

// lacksRecords reports whether records behind the last snapshot were purged.
func (s *simulation) lacksRecords(t *testing.T) bool {
	t.Helper()
	p, _, err := s.servers.Snapshots("test", s.generation()).Pointer(t.Context())
	require.NoError(t, err)
	return s.servers.Messages(s.generation())[0].Seq > p.Last.Offset+1
}

// seeds returns n seeds, which are other ones in every run, fewer under -short.
func seeds(t *testing.T, n int) (all []uint64) {
	if set := os.Getenv("SIMULATION_SEED"); set != "" {
		seed := require.Value(strconv.ParseUint(set, 10, 64))(t)
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
			for _, seed := range seeds(t, 200) {
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
