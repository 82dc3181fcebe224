package crash

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"ndrbridge/test/fault"
	"ndrbridge/test/require"
)

// happened is what the plan did to a cluster.
type happened struct {
	open  []*openFault // not over, the one that ends first at the front
	past  []pastFault
	logs  []*shardLog
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
	owned  []int  // the victim's shards when it began
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
			s.readLogs(t)
		}
		apart = step.alone
		if step.most {
			step.bridge = s.busiest()
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

// busiest returns the number of the bridge that owns the most shards.
func (s *clusterScene) busiest() (number int) {
	most := -1
	for n, m := range s.members {
		if owned := len(s.owners.owned(m)); owned > most {
			number, most = n, owned
		}
	}
	return number
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

// permits reports whether a step may begin now. One bridge and the majority of the NATS
// servers stay undisturbed, and nothing is disturbed twice.
func (s *clusterScene) permits(t *testing.T, step clusterStep) bool {
	m := s.members[step.bridge]
	same := func(f *openFault) bool { return f.fault == step.fault && f.bridge == step.bridge }
	switch step.fault {
	case killServer, cutRoute:
		return !slices.ContainsFunc(s.open, func(f *openFault) bool { return f.fault.ofServers() }) && s.healthy(t)
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
		if other != m && (other.bridge == nil || other.paused || other.isolated) {
			disturbed++
		}
	}
	// A process that has just been started may not handle SIGTERM yet.
	ready := m.bridge != nil && !m.paused && (step.fault != stopBridge || s.owners.works(m))
	return ready && disturbed < clusterMembers-1
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
	t.Logf("%s %s: %s, peer %d, for %v; it owned %v", past.at.Format(clockTime), past.victim, step.fault, step.peer, step.lasts, past.owned)
}

// inflict does what a step says and returns how to undo it.
func (s *clusterScene) inflict(t *testing.T, step clusterStep, m *clusterMember) (fix func(t *testing.T)) {
	t.Helper()
	switch step.fault {
	case killBridge:
		m.kill(t)
		return m.start
	case stopBridge:
		m.stop(t)
		return m.start
	case pauseBridge:
		m.signal(t, syscall.SIGSTOP)
		m.paused = true
		return func(t *testing.T) {
			m.signal(t, syscall.SIGCONT)
			m.paused, m.since = false, time.Now()
		}
	case killServer:
		server := s.servers.Nodes[step.peer]
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
		return func(t *testing.T) {
			require.NoError(t, server.Start())
		}
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
