package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/fault"
	"ndrbridge/test/natscluster"
	"ndrbridge/test/require"
)

// happened is what the plan did to a cluster.
type happened struct {
	open  []*openFault // not over, the one that ends first at the front
	past  []pastFault
	log   clusterLog
	begun map[clusterFault]int
}

// openFault is a fault until it is over.
type openFault struct {
	clusterStep
	until time.Time
	fix   func(t *testing.T)
}

// pastFault is a fault that began.
type pastFault struct {
	clusterStep
	at     time.Time
	victim string // the member
	owned  bool   // the victim owned the log when it began
}

// endure lets the steps of a plan happen. All of them are over when it returns.
func (s *clusterScene) endure(t *testing.T, steps []clusterStep) {
	t.Helper()
	s.begun = make(map[clusterFault]int)
	apart := false
	for n, step := range steps {
		s.fixUntil(t, time.Now().Add(step.pause))
		if apart || step.alone {
			s.fixAll(t)
			s.awaitHealthy(t)
			s.readLog(t)
		}
		apart = step.alone
		if owner := s.owners.owner(); step.owner && owner >= 0 {
			step.bridge = owner
		}
		for deadline := time.Now().Add(patience); !s.permits(t, step); {
			if len(s.open) > 0 {
				s.fixUntil(t, s.open[0].until)
			} else if time.Sleep(50 * time.Millisecond); time.Now().After(deadline) {
				t.Fatalf("fault %d, %s, is never possible\n%s", n, step.fault, s.outputs())
			}
		}
		s.begin(t, step)
		if n%50 == 49 {
			t.Logf("%d faults, %d events at the webhook", n+1, s.received(webhookSink))
		}
	}
	s.fixAll(t)
}

// fixUntil ends the faults that are over by a time, each at its own, and waits until then.
func (s *clusterScene) fixUntil(t *testing.T, until time.Time) {
	t.Helper()
	for len(s.open) > 0 && !s.open[0].until.After(until) {
		f := s.open[0]
		s.open = s.open[1:]
		time.Sleep(time.Until(f.until))
		f.fix(t)
	}
	time.Sleep(time.Until(until))
}

// fixAll waits until every fault is over.
func (s *clusterScene) fixAll(t *testing.T) {
	t.Helper()
	for len(s.open) > 0 {
		s.fixUntil(t, s.open[0].until)
	}
}

// permits reports whether a step may begin now. One bridge stays undisturbed unless all are
// killed, and nothing is disturbed twice.
func (s *clusterScene) permits(t *testing.T, step clusterStep) bool {
	m := s.members[step.bridge]
	same := func(f *openFault) bool { return f.fault == step.fault && f.bridge == step.bridge }
	if s.takesServers(step.fault) {
		return !slices.ContainsFunc(s.open, func(f *openFault) bool { return s.takesServers(f.fault) }) && s.healthy(t)
	}
	switch step.fault {
	case handOver:
		return true
	case stallSink:
		return !slices.ContainsFunc(s.open, func(f *openFault) bool { return f.fault == stallSink })
	case restartAll:
		return !slices.ContainsFunc(s.members, func(m *clusterMember) bool { return m.bridge == nil || m.paused || m.full })
	case cutSink:
		return !slices.ContainsFunc(s.open, func(f *openFault) bool { // all bridges share the proxy of Kafka
			return f.fault == cutSink && f.peer == step.peer
		})
	case cutAppliance:
		return !slices.ContainsFunc(s.open, same)
	case cutServer, isolate:
		return !slices.ContainsFunc(s.open, func(f *openFault) bool {
			return (f.fault == cutServer || f.fault == isolate) && f.bridge == step.bridge
		})
	}
	disturbed := 0
	for _, other := range s.members {
		if other != m && (other.bridge == nil || other.paused || other.isolated || other.full) {
			disturbed++
		}
	}
	// A process that has just been started may not handle SIGTERM yet.
	ready := m.bridge != nil && !m.paused && !m.full && (step.fault != stopBridge || s.owners.works(m))
	if _, err := os.Stat(filepath.Join(m.folder, "state.db")); step.fault == fillDisk && err != nil {
		return false // it starts without its files, and waits for NATS
	}
	return ready && disturbed < clusterMembers-1
}

// takesServers reports whether a fault takes NATS servers from each other.
func (s *clusterScene) takesServers(f clusterFault) bool {
	return f.ofServers() || s.embedded != nil && f == isolate
}

// begin begins a step.
func (s *clusterScene) begin(t *testing.T, step clusterStep) {
	t.Helper()
	m := s.members[step.bridge]
	past := pastFault{clusterStep: step, victim: m.name, owned: s.owners.owned(m), at: time.Now()}
	fix := s.inflict(t, step, m)
	s.past = append(s.past, past)
	s.begun[step.fault]++
	f := &openFault{clusterStep: step, until: time.Now().Add(step.lasts), fix: fix}
	at, _ := slices.BinarySearchFunc(s.open, f.until, func(f *openFault, t time.Time) int { return f.until.Compare(t) })
	s.open = slices.Insert(s.open, at, f)
	t.Logf("%s %s: %s, peer %d, for %v; it owned the log: %v", past.at.Format(clockTime), past.victim, step.fault, step.peer, step.lasts, past.owned)
}

// inflict does what a step says and returns how to undo it.
func (s *clusterScene) inflict(t *testing.T, step clusterStep, m *clusterMember) (fix func(t *testing.T)) {
	t.Helper()
	switch step.fault {
	case killBridge:
		return kill(t, m)
	case stopBridge:
		m.stop(t)
		return m.start
	case pauseBridge:
		return pause(t, m)
	case fillDisk:
		free := m.bridge.limitFiles(t, filepath.Join(m.folder, "state.db"), 1000)
		m.full = true
		return func(*testing.T) { free(); m.full = false }
	case deleteFolder:
		m.kill(t)
		m.deleteFiles(t)
		return m.start
	case restartAll:
		return kill(t, s.members...)
	case operate:
		m.kill(t)
		stop := s.operate(t)
		return func(t *testing.T) { stop(); m.start(t) }
	case handOver:
		if err := s.handOver(t.Context(), m); err != nil {
			t.Logf("hand over: %v", err)
		}
		return func(*testing.T) {}
	case killServer, killLeader, killMajority:
		if s.embedded != nil {
			return kill(t, s.victims(t, step)...)
		}
		return s.killServers(t, step)
	case pauseServers:
		if s.embedded != nil {
			return pause(t, s.victims(t, step)...)
		}
		return s.pauseServers(t, step)
	case stallSink:
		return s.stall.begin()
	case cutRoute:
		return cut(s.routes[step.peer]...)
	case cutServer:
		return cut(m.servers[step.peer])
	case isolate:
		m.isolated = true
		join := cut(m.servers...)
		return func(t *testing.T) { join(t); m.isolated = false }
	case cutSink:
		return cut(m.sinks[clusterSinks[step.peer]])
	case cutAppliance:
		return cut(m.appliances...)
	}
	panic(fmt.Sprintf("unknown fault %d", step.fault))
}

// kill kills bridges. fix starts them again.
func kill(t *testing.T, members ...*clusterMember) (fix func(t *testing.T)) {
	t.Helper()
	for _, m := range members {
		m.kill(t)
	}
	return func(t *testing.T) {
		for _, m := range members {
			m.start(t)
		}
	}
}

// pause pauses bridges until fix is called.
func pause(t *testing.T, members ...*clusterMember) (fix func(t *testing.T)) {
	t.Helper()
	for _, m := range members {
		m.signal(t, syscall.SIGSTOP)
		m.paused = true
	}
	return func(t *testing.T) {
		for _, m := range members {
			m.signal(t, syscall.SIGCONT)
			m.paused, m.since = false, time.Now()
		}
	}
}

// killServers kills one NATS server, that which leads the log, or two.
func (s *clusterScene) killServers(t *testing.T, step clusterStep) (fix func(t *testing.T)) {
	t.Helper()
	servers := []*natscluster.Node{s.servers.Nodes[step.peer]}
	switch step.fault {
	case killLeader:
		servers[0] = s.servers.Nodes[s.leader(t)]
	case killMajority:
		servers = append(servers, s.servers.Nodes[(step.peer+1)%clusterServers])
	}
	for _, server := range servers {
		assert.NoError(t, server.Kill())
	}
	return func(t *testing.T) {
		for _, server := range servers {
			require.NoError(t, server.Start())
		}
	}
}

// leader returns the number of the NATS server that leads the log, or of another one if none does.
func (s *clusterScene) leader(t *testing.T) int {
	t.Helper()
	if c := s.replicas(t, s.log.stream()); c != nil {
		for n, m := range s.members {
			if c.Leader == natscluster.Name(n) || c.Leader == m.name {
				return n
			}
		}
	}
	return 0
}

// pauseServers pauses a NATS server, or two: then nothing is stored.
func (s *clusterScene) pauseServers(t *testing.T, step clusterStep) (fix func(t *testing.T)) {
	t.Helper()
	servers := []*natscluster.Node{s.servers.Nodes[step.peer]}
	if step.owner {
		servers = append(servers, s.servers.Nodes[(step.peer+1)%clusterServers])
	}
	signal := func(t *testing.T, signal syscall.Signal) {
		for _, server := range servers {
			assert.NoError(t, server.Signal(signal))
		}
	}
	signal(t, syscall.SIGSTOP)
	return func(t *testing.T) { signal(t, syscall.SIGCONT) }
}

// deleteFiles deletes everything in the member's folder but the configuration.
func (m *clusterMember) deleteFiles(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(m.folder)
	require.NoError(t, err)
	for _, e := range entries {
		if path := filepath.Join(m.folder, e.Name()); path != m.config {
			require.NoError(t, os.RemoveAll(path))
		}
	}
}

// signal sends a signal to the member's bridge.
func (m *clusterMember) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := m.bridge.command.Process.Signal(signal); err != nil {
		t.Fatalf("%s has ended: %v\n%s", m.name, err, m.bridge.output.end())
	}
}

// cut cuts connections. join ends that.
func cut(proxies ...*fault.Proxy) (join func(t *testing.T)) {
	for _, p := range proxies {
		p.Cut()
	}
	return func(*testing.T) {
		for _, p := range proxies {
			p.Join()
		}
	}
}
