package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/configs"
	ndrbridge "ndrbridge/internal/bridge"
	"ndrbridge/internal/cluster"
	"ndrbridge/test/assert"
	"ndrbridge/test/fault"
	"ndrbridge/test/loopback"
	"ndrbridge/test/natscluster"
	"ndrbridge/test/require"
)

// The size of the cluster, and the duration of its leases: the shortest, with which it goes
// through the most takeovers.
const (
	clusterMembers = 3
	clusterServers = 3
	clusterLease   = 2 * time.Second
)

// The detections of the idle appliances are changed by ticket commands alone.
var (
	clusterFleet = []string{"hq", "north", "east", "south"}
	clusterIdle  = []string{"idle-1", "idle-2"}
	clusterSinks = []string{webhookSink, natsSink, kafkaSink}
)

// clusterScene is a cluster of bridges and of NATS servers, a fleet of appliances, the
// targets of three sinks, and a proxy for every pair of them that can lose each other.
type clusterScene struct {
	site
	seed     uint64
	servers  *natscluster.Cluster           // nil: they are embedded
	embedded []string                       // their configurations, by member; nil: they are not
	routes   [clusterServers][]*fault.Proxy // by the server that a cut leaves out
	members  []*clusterMember
	kafka    *kafkaBroker
	senders  senders
	js       jetstream.JetStream // nil: not connected yet
	owners   *owners
	stall    stall // of the webhook's receivers
	happened
}

// clusterMember is a bridge of the cluster, which may run or not.
type clusterMember struct {
	name, folder, config string
	admin                string // the address of its admin interface
	program              []string
	servers              []*fault.Proxy // without which it has no majority of NATS servers
	sinks                map[string]*fault.Proxy
	appliances           []*fault.Proxy // by sensor
	bridge               *bridge        // nil: it does not run
	since                time.Time      // when it was started, or went on
	paused, isolated     bool
	full                 bool // its disk
}

// newClusterScene starts everything but the bridges.
func newClusterScene(t *testing.T, program []string, seed uint64, servers natsServers) *clusterScene {
	t.Helper()
	s := &clusterScene{seed: seed, site: site{sinks: clusterSinks}}
	for i, name := range append(clusterFleet, clusterIdle...) {
		past := 50
		if i == 0 {
			past = 300
		}
		sensor := startSensor(t, name, seed+uint64(i), past)
		sensor.idle = i >= len(clusterFleet)
		s.sensors = append(s.sensors, sensor)
	}
	if servers == embedded {
		s.embed(t)
	} else {
		s.startServers(t)
	}
	receive := func(sink string, body []byte) { s.receive(t, sink, body) }
	bus := startNATS(t, newProxy(t, ""), receive)
	s.kafka = startKafka(t, newProxy(t, ""), receive)
	for n := range clusterMembers {
		m := &clusterMember{
			name: fmt.Sprintf("bridge-%d", n), folder: t.TempDir(), admin: loopback.Free(t), program: program,
			sinks: make(map[string]*fault.Proxy),
		}
		m.config = filepath.Join(m.folder, "ndrbridge.yaml")
		m.servers = s.reach(t, n)
		for _, sensor := range s.sensors {
			m.appliances = append(m.appliances, newProxy(t, sensor.proxy.Addr().String()))
		}
		// A receiver for each member shows which of them sent an event.
		m.sinks[webhookSink] = newProxy(t, startStalling(t, &s.stall, func(body []byte) { s.senders.receive(t, s, m, body) }))
		m.sinks[natsSink] = newProxy(t, bus.proxy.Addr().String())
		m.sinks[kafkaSink] = s.kafka.proxy // the broker advertises one address to all
		require.NoError(t, os.WriteFile(m.config, []byte(s.memberConfiguration(m)), 0o600))
		s.members = append(s.members, m)
	}
	s.owners = watchOwners(t, s.members)
	return s
}

// reach returns the proxies through which a member reaches NATS servers, or its own the others.
func (s *clusterScene) reach(t *testing.T, member int) (proxies []*fault.Proxy) {
	t.Helper()
	if s.embedded != nil {
		return slices.Concat(s.routes[(member+1)%clusterMembers], s.routes[(member+2)%clusterMembers])
	}
	for _, server := range s.servers.Nodes {
		proxies = append(proxies, newProxy(t, server.Address))
	}
	return proxies
}

// startServers starts the NATS servers of the cluster.
func (s *clusterScene) startServers(t *testing.T) {
	t.Helper()
	program, err := natscluster.Build(t.Context(), t.TempDir())
	require.NoError(t, err)
	s.servers, err = natscluster.New(program, t.TempDir(), clusterServers, func(from, to int, address string) (string, error) {
		p := newProxy(t, address)
		other := clusterServers - from - to
		s.routes[other] = append(s.routes[other], p)
		return p.Addr().String(), nil
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, s.servers.Start(ctx))
	t.Cleanup(func() {
		assert.NoError(t, s.servers.Stop())
	})
}

// create creates the cluster, once its servers can. The members run, since the servers may be theirs.
func (s *clusterScene) create(t *testing.T) {
	t.Helper()
	config, err := configs.Load(configs.Source{Paths: []string{s.members[0].config}})
	require.NoError(t, err)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		err := ndrbridge.Init(t.Context(), config, "", func(int64) {})
		if err == nil {
			return
		}
		require.True(t, time.Now().Before(deadline) && !errors.Is(err, cluster.ErrNotNew), err)
	}
}

// start starts a member's bridge.
func (m *clusterMember) start(t *testing.T) {
	t.Helper()
	m.bridge, m.since = startBridge(t, m.program, m.config), time.Now()
	b, name := m.bridge, fmt.Sprintf("%s-%d.log", m.name, m.bridge.command.Process.Pid)
	folder := t.ArtifactDir()
	t.Cleanup(func() {
		assert.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(b.output.String()), 0o600))
	})
}

// kill kills a member's bridge.
func (m *clusterMember) kill(t *testing.T) {
	t.Helper()
	m.bridge.kill(t, false)
	m.bridge = nil
}

// stop ends a member's bridge in order.
func (m *clusterMember) stop(t *testing.T) {
	t.Helper()
	m.bridge.terminate(t)
	m.bridge = nil
}

// startAll starts every bridge, creates the cluster, and waits until the log has an owner and a
// follower.
func (s *clusterScene) startAll(t *testing.T) {
	t.Helper()
	for _, m := range s.members {
		m.start(t)
	}
	s.create(t)
	s.awaitFollowers(t)
}

// awaitHealthy waits until the log has an owner and every NATS server has everything.
func (s *clusterScene) awaitHealthy(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		owner := s.owners.owner()
		if owner >= 0 && s.healthy(t) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the owner is member %d (NATS servers healthy: %v)\n%s", owner, s.healthy(t), s.outputs())
		}
	}
}

// healthy reports whether every NATS server is.
func (s *clusterScene) healthy(t *testing.T) bool {
	if s.embedded != nil {
		return s.replicated(t)
	}
	for _, server := range s.servers.Nodes {
		if !server.Healthy(t.Context()) {
			return false
		}
	}
	return true
}

// outputs returns the ends of the outputs of the bridges that run.
func (s *clusterScene) outputs() (text string) {
	for _, m := range s.members {
		if m.bridge != nil {
			text += fmt.Sprintf("--- %s ends with\n%s\n", m.name, m.bridge.output.end())
		}
	}
	return text
}
