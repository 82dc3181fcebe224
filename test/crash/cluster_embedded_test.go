package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/configs"
	"ndrbridge/internal/natsserver"
	"ndrbridge/test/certificate"
	"ndrbridge/test/loopback"
)

// natsServers are the NATS servers of a cluster.
type natsServers bool

const (
	separate natsServers = false // processes of their own
	embedded natsServers = true  // those of the members
)

// ofBoth runs a test with both kinds of NATS servers.
func ofBoth(t *testing.T, test func(*testing.T, natsServers)) {
	t.Helper()
	for name, servers := range map[string]natsServers{"separate": separate, "embedded": embedded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, servers)
		})
	}
}

// embed configures a NATS server in each member, which reaches those of the others through proxies.
// Servers tell each other the address 127.0.0.1 of all that they know, with the ports at which these
// listen. None listens there, so that nothing gets around the proxies.
func (s *clusterScene) embed(t *testing.T) {
	t.Helper()
	cert, key := certificate.Files(t, t.TempDir(), "member", certificate.New(t, "127.0.0.1", time.Now().Add(24*time.Hour), nil))
	ports := loopback.FreePorts(t, clusterMembers)
	listen := func(n int) string { return fmt.Sprintf("127.0.0.2:%d", ports[n]) }
	for n := range clusterMembers {
		peers := []string{listen(n)}
		for to := range clusterMembers {
			if to == n {
				continue
			}
			p := newProxy(t, listen(to))
			other := clusterMembers - n - to
			s.routes[other] = append(s.routes[other], p)
			peers = append(peers, p.Addr().String())
		}
		s.embedded = append(s.embedded, fmt.Sprintf("{embedded: {listen: %q, peers: [%s], tls: {cert_file: %q, key_file: %q, ca_file: %[3]q}}}",
			listen(n), strings.Join(peers, ", "), cert, key))
	}
}

// Dial connects to the embedded server of a member that runs, as a nats.CustomDialer.
func (s *clusterScene) Dial(string, string) (conn net.Conn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, n := range rand.Perm(clusterMembers) {
		e := &configs.Embedded{Folder: filepath.Join(s.members[n].folder, "state.db.nats")}
		if conn, err = natsserver.DialMember(e)(ctx); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// replicated reports whether every member runs, and its embedded server has everything that the
// cluster has stored.
func (s *clusterScene) replicated(t *testing.T) bool {
	t.Helper()
	if slices.ContainsFunc(s.members, func(m *clusterMember) bool { return m.bridge == nil || m.paused || m.full }) {
		return false
	}
	for _, name := range []string{s.log.stream(), "NDR_torture_meta"} {
		c := s.replicas(t, name)
		behind := func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline }
		if c == nil || c.Leader == "" || len(c.Replicas) != clusterServers-1 || slices.ContainsFunc(c.Replicas, behind) {
			return false
		}
	}
	return true
}

// replicas returns the NATS servers that store a stream; nil: they do not answer.
func (s *clusterScene) replicas(t *testing.T, stream string) *jetstream.ClusterInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	found, err := s.jetStream(t).Stream(ctx, stream)
	if err != nil {
		return nil
	}
	return found.CachedInfo().Cluster
}

// victims returns the members whose embedded servers a step takes: the one that leads the log, or one
// or two from that of the step on.
func (s *clusterScene) victims(t *testing.T, step clusterStep) []*clusterMember {
	t.Helper()
	first := step.bridge
	if step.fault == killLeader {
		first = s.leader(t)
	}
	if step.fault == killLeader || step.fault == pauseServers && !step.owner {
		return s.members[first : first+1]
	}
	return []*clusterMember{s.members[first], s.members[(first+1)%clusterMembers]}
}

// endEmbedded stops the members, the owner last, whose file then holds what was committed. The log
// cannot be read afterwards.
func (s *clusterScene) endEmbedded(t *testing.T) (last *clusterMember) {
	t.Helper()
	s.awaitFollowers(t)
	s.readLog(t)
	last = s.owner(t, nil)
	for _, m := range s.members {
		if m != last {
			m.stop(t)
		}
	}
	last.stop(t)
	return last
}
