package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/lease"
)

// gate stops what passes it while a member is paused, and refuses it once the member has
// crashed or while it is cut off.
type gate struct {
	mu      sync.Mutex
	paused  chan struct{} // closed when it goes on; nil: it is not paused
	crashed bool
	cut     bool // from the registry and the other members
}

var errCrashed = errors.New("the process has crashed")

func (g *gate) pass() error {
	for {
		g.mu.Lock()
		paused, crashed := g.paused, g.crashed
		g.mu.Unlock()
		if crashed {
			return errCrashed
		}
		if paused == nil {
			return nil
		}
		<-paused
	}
}

// open reports whether what passes is neither stopped nor refused, and the registry is reached.
func (g *gate) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paused == nil && !g.crashed && !g.cut
}

func (g *gate) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused == nil {
		g.paused = make(chan struct{})
	}
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused != nil {
		close(g.paused)
		g.paused = nil
	}
}

func (g *gate) crash() {
	g.mu.Lock()
	g.crashed = true
	g.mu.Unlock()
	g.resume()
}

func (g *gate) setCut(cut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = cut
}

// passTo is pass for what goes to the registry.
func (g *gate) passTo() error {
	if err := g.pass(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cut {
		return errors.New("the registry cannot be reached")
	}
	return nil
}

// gatedClock is the clock of a member that can be paused: it goes on, and its timers wait.
type gatedClock struct {
	scaledClock
	gate *gate
}

func (c gatedClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return c.scaledClock.AfterFunc(d, func() {
		c.gate.pass() // after a crash timers end what is left
		f()
	})
}

// gatedRegistry is the registry as a member reaches it.
type gatedRegistry struct {
	Registry
	gate *gate
}

func (r gatedRegistry) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	if err := r.gate.passTo(); err != nil {
		return nil, 0, err
	}
	return r.Registry.Get(ctx, key)
}

func (r gatedRegistry) Put(ctx context.Context, key string, value []byte, revision uint64) error {
	if err := r.gate.passTo(); err != nil {
		return err
	}
	return r.Registry.Put(ctx, key, value, revision)
}

// gatedStream is a stream as a member reaches it.
type gatedStream struct {
	replicated.Stream
	gate *gate
	// purgesAll is sabotage: what is not in a snapshot is purged too, a little later.
	purgesAll *atomic.Bool
}

func (s gatedStream) Publish(after uint64, m replicated.Message, answer func(uint64, error)) error {
	if err := s.gate.pass(); err != nil {
		return err
	}
	return s.Stream.Publish(after, m, func(seq uint64, err error) {
		if s.gate.pass() == nil {
			answer(seq, err)
		}
	})
}

func (s gatedStream) Get(ctx context.Context, seq uint64) (replicated.Message, error) {
	if err := s.gate.pass(); err != nil {
		return replicated.Message{}, err
	}
	m, err := s.Stream.Get(ctx, seq)
	return m, errors.Join(err, s.gate.pass())
}

func (s gatedStream) Last(ctx context.Context) (uint64, error) {
	if err := s.gate.pass(); err != nil {
		return 0, err
	}
	last, err := s.Stream.Last(ctx)
	return last, errors.Join(err, s.gate.pass())
}

func (s gatedStream) Follow(ctx context.Context, from uint64, yield func(uint64, replicated.Message) error) error {
	if err := s.gate.pass(); err != nil {
		return err
	}
	return s.Stream.Follow(ctx, from, func(seq uint64, m replicated.Message) error {
		if err := s.gate.pass(); err != nil {
			return err
		}
		return yield(seq, m)
	})
}

func (s gatedStream) Purge(ctx context.Context, before uint64) error {
	if err := s.gate.pass(); err != nil {
		return err
	}
	if s.purgesAll.Load() {
		time.AfterFunc(testTerm, func() {
			if last, err := s.Stream.Last(context.Background()); err == nil {
				s.Stream.Purge(context.Background(), last)
			}
		})
	}
	return s.Stream.Purge(ctx, before)
}

// simMember is a member of a simulated cluster: a process that can be paused, cut off,
// crash, and be started again with the same disk.
type simMember struct {
	sim     *simulation
	name    string
	rate    float64
	disk    *simDisk // of the caller of start, crash and stop
	current atomic.Pointer[simProcess]
}

// simProcess is what runs from one start to its end.
type simProcess struct {
	node  *Node
	gate  *gate // what passes it waits while the process is paused
	stall *gate // likewise, for its disk
	end   context.CancelFunc
	done  chan struct{}
}

// simPath is the path of the copy on the disk of each member.
const simPath = "state"

func (m *simMember) node() *Node  { return m.current.Load().node }
func (m *simMember) gate() *gate  { return m.current.Load().gate }
func (m *simMember) stall() *gate { return m.current.Load().stall }

// start starts the process.
func (m *simMember) start() {
	p := &simProcess{gate: &gate{}, stall: &gate{}, done: make(chan struct{})}
	disk, clock := m.disk, gatedClock{newScaledClock(m.rate), p.gate}
	disk.setStall(p.stall)
	open := m.sim.storage(m.name)
	p.node = New(m.sim.change(Options{
		Name: "sim", Member: m.name, Term: testTerm, Clock: clock, Version: "1",
		Registry: gatedRegistry{m.sim.registry, p.gate},
		Storage: func(ctx context.Context, generation uint64, create bool) (Storage, error) {
			s, err := open(ctx, generation, create)
			s.Stream = gatedStream{s.Stream, p.gate, &m.sim.purgesAll}
			return s, err
		},
		Peers:       func(context.Context) ([]Report, error) { return m.sim.reports(p.gate) },
		Path:        simPath,
		OpenReplica: func(path string) (Replica, error) { return disk.openFile(path) },
		files:       disk,
		Own: func(ctx context.Context, o Ownership) error {
			return m.sim.own(ctx, p.gate, disk, m.name, clock, o)
		},
		snapshots:   replicated.SnapshotterOptions{Messages: 20},
		ConfigHash:  func() string { return "" },
		URL:         func() string { return "http://" + m.name },
		Metrics:     NewMetrics(prometheus.NewRegistry()),
		StopTimeout: 2 * time.Second, Log: m.sim.log.With("member", m.name),
	}))
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	m.current.Store(p)
	go func() {
		defer close(p.done)
		p.node.Run(ctx)
	}()
}

// join starts another member, without a copy and with the clock of the test.
func (s *simulation) join(name string) *simMember {
	m := &simMember{sim: s, name: name, rate: 1, disk: newSimDisk()}
	s.mu.Lock()
	s.members = append(slices.Clone(s.members), m)
	s.mu.Unlock()
	m.start()
	return m
}

// reports returns what the members that can be reached through a gate say of themselves.
func (s *simulation) reports(from *gate) (reports []Report, err error) {
	if err := from.passTo(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	members := s.members
	s.mu.Unlock()
	for _, m := range members {
		if p := m.current.Load(); p != nil && p.gate.open() {
			reports = append(reports, p.node.Report())
		}
	}
	return reports, nil
}

// crash ends the process at once.
func (m *simMember) crash() {
	p := m.current.Load()
	p.gate.crash()
	p.stall.resume()
	m.disk = m.disk.crash()
	p.end()
}

// stop stops the process cleanly and waits for it.
func (m *simMember) stop() {
	p := m.current.Load()
	p.end()
	<-p.done
}

// own is what an owner does: it changes the state now and then, and sends
// something while it has a lease.
func (s *simulation) own(ctx context.Context, g *gate, disk *simDisk, member string, clock lease.Clock, o Ownership) error {
	f, err := disk.openFile(simPath)
	if err != nil {
		return err
	}
	defer f.Close()
	var snapshots sync.WaitGroup
	defer snapshots.Wait()
	running, end := context.WithCancel(ctx)
	defer end()
	snapshots.Go(func() { o.Snapshots(running, f) })
	s.began(o)
	state := f.read()
	for n := 0; ; n++ {
		if err := g.pass(); err != nil {
			return err
		}
		var record []byte
		var next simRecord
		if n > 0 && s.chance(0.7) {
			next = state.next(fmt.Sprintf("%s@%d", member, n))
			record = next.encode()
			s.made(next)
		}
		at, err := o.Log.Append(record)
		if err := g.pass(); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("append: %w", err)
		}
		if record != nil {
			s.acked(next)
			state = next.After
			if err := f.Apply([][]byte{record}, at); err != nil {
				return err
			}
		}
		if !sleep(ctx, clock, s.between(10*time.Millisecond, o.Renew)) {
			return nil
		}
	}
}

// discard is the log of a simulation, unless somebody reads it.
var discard = slog.New(slog.DiscardHandler)

var _ Replica = (*checkpoint.Replica)(nil)
