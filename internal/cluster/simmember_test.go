package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	cut     bool // from the registry
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

func (r gatedRegistry) Get(ctx context.Context, key string) (Entry, error) {
	if err := r.gate.passTo(); err != nil {
		return Entry{}, err
	}
	return r.Registry.Get(ctx, key)
}

func (r gatedRegistry) List(ctx context.Context, prefix string) ([]Entry, error) {
	if err := r.gate.passTo(); err != nil {
		return nil, err
	}
	return r.Registry.List(ctx, prefix)
}

func (r gatedRegistry) Put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := r.gate.passTo(); err != nil {
		return 0, err
	}
	return r.Registry.Put(ctx, key, value, revision)
}

func (r gatedRegistry) Delete(ctx context.Context, key string, revision uint64) error {
	if err := r.gate.passTo(); err != nil {
		return err
	}
	return r.Registry.Delete(ctx, key, revision)
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
	// waiting is why the process has not joined the cluster; nil: it has.
	waiting atomic.Pointer[string]
}

// join waits until the cluster exists, and returns its identity.
func (p *simProcess) join(ctx context.Context, r Registry, clock lease.Clock) string {
	for {
		id, err := Check(ctx, r, "sim", simShards)
		if err == nil || !sleep(ctx, clock, testTerm/3, nil) {
			p.waiting.Store(nil)
			return id
		}
		p.waiting.Store(new(err.Error()))
	}
}

func (m *simMember) node() *Node  { return m.current.Load().node }
func (m *simMember) gate() *gate  { return m.current.Load().gate }
func (m *simMember) stall() *gate { return m.current.Load().stall }

// start starts the process.
func (m *simMember) start() {
	p := &simProcess{gate: &gate{}, stall: &gate{}, done: make(chan struct{})}
	disk, clock := m.disk, gatedClock{newScaledClock(m.rate), p.gate}
	disk.setStall(p.stall)
	p.node = New(m.sim.change(Options{
		Name: "sim", Member: m.name, Shards: simShards, Term: testTerm, Clock: clock, Version: "1",
		Registry: gatedRegistry{m.sim.registry, p.gate},
		Storage: func(shard int) Storage {
			return Storage{
				Stream:    gatedStream{m.sim.servers.Stream(m.name, shard), p.gate, &m.sim.purgesAll},
				Snapshots: m.sim.servers.Snapshots(m.name, shard),
			}
		},
		Path:        func(shard int) string { return fmt.Sprint("state.", shard) },
		OpenReplica: func(path string) (Replica, error) { return disk.openFile(path) },
		files:       disk,
		Own: func(ctx context.Context, o Ownership) error {
			return m.sim.own(ctx, p.gate, disk, m.name, clock, o)
		},
		snapshots:   replicated.SnapshotterOptions{Messages: 20},
		ConfigHash:  func() string { return "" },
		Appliances:  func(int) []string { return nil },
		Metrics:     NewMetrics(prometheus.NewRegistry()),
		StopTimeout: 2 * time.Second, Log: m.sim.log.With("member", m.name),
	}))
	p.waiting.Store(new("it has not joined the cluster yet"))
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	m.current.Store(p)
	go func() {
		defer close(p.done)
		id := p.join(ctx, gatedRegistry{m.sim.registry, p.gate}, clock)
		if err := p.node.Run(ctx, id); err != nil && p.gate.pass() == nil {
			m.sim.fail("member %s: %v", m.name, err)
		}
	}()
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

// own is what a member does with a shard: it changes the state now and then, and sends
// something while it has a lease.
func (s *simulation) own(ctx context.Context, g *gate, disk *simDisk, member string, clock lease.Clock, o Ownership) error {
	f, err := disk.openFile(fmt.Sprint("state.", o.Shard))
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
			s.made(o.Shard, next)
		}
		at, err := o.Log.Append(record)
		if err := g.pass(); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("append: %w", err)
		}
		if record != nil {
			s.acked(o.Shard, next)
			state = next.After
			if err := f.Apply([][]byte{record}, at); err != nil {
				return err
			}
		}
		if !sleep(ctx, clock, s.between(10*time.Millisecond, o.Renew), nil) {
			return nil
		}
	}
}

// discard is the log of a simulation, unless somebody reads it.
var discard = slog.New(slog.DiscardHandler)

var _ Replica = (*checkpoint.Replica)(nil)
