package crash

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// TestClusterIsRecovered follows the recipes of docs/cluster.md for NATS servers most of which are
// gone for good, while detections change and ticket commands arrive: until the log continues from
// the furthest copy, no member acts. Nothing that was acknowledged is lost: a member has it.
func TestClusterIsRecovered(t *testing.T) {
	t.Parallel()
	s := newClusterScene(t, buildBridge(t), 1, separate)
	stopLife := s.live(t, clusterRates)
	s.startAll(t)
	commands, stopCommands := s.drive(t)
	s.reached(t, webhookSink, s.received(webhookSink)+100)
	s.readLog(t)
	for _, server := range s.servers.Nodes[1:] {
		require.NoError(t, server.Kill())
		require.NoError(t, server.Clear())
	}
	s.members[0].kill(t)
	s.members[0].start(t)
	s.awaitMembers(t, "to report that NATS does not answer", func(m *clusterMember) bool {
		return strings.Contains(m.notReady(t), "NATS") && !s.owners.owned(m)
	})
	time.Sleep(clusterLease) // a busy receiver may be late
	before := s.received(webhookSink)
	require.NoError(t, s.servers.Nodes[0].Kill())
	require.NoError(t, s.servers.Nodes[0].Clear())
	for _, server := range s.servers.Nodes {
		require.NoError(t, server.Start())
	}
	s.awaitMembers(t, "to report that the log is lost", func(m *clusterMember) bool {
		samples, err := metricsOf(t.Context(), m.admin)
		return err == nil && samples["ndrbridge_cluster_log_lost"] == 1 && samples["ndrbridge_cluster_owner"] == 0
	})
	time.Sleep(2 * clusterLease) // time to act by mistake
	n := s.received(webhookSink) - before
	assert.True(t, n <= 0, n, "events were sent while the log was lost")
	s.recover(t)
	s.log.begin(2)
	s.awaitFollowers(t)
	stopLife()
	stopCommands()
	s.arrive(t, commands)
	s.end(t)
	s.judge(t, commands)
}

// TestClusterSurvivesFullNATSServers fills the NATS servers of a cluster while detections change and
// ticket commands arrive, and follows the recipe of docs/cluster.md: first space is freed, then the
// limit is raised. Both times the cluster continues by itself and has lost nothing.
func TestClusterSurvivesFullNATSServers(t *testing.T) {
	t.Parallel()
	s := newClusterScene(t, buildBridge(t), 1, separate)
	stopLife := s.live(t, clusterRates)
	s.startAll(t)
	commands, stopCommands := s.drive(t)
	s.limit(t, 64<<20)
	for _, end := range []func(){func() { s.free(t) }, func() { s.limit(t, 1<<30) }} {
		s.awaitFollowers(t)
		s.reached(t, webhookSink, s.received(webhookSink)+100)
		s.fill(t)
		s.awaitMembers(t, "to own nothing", func(m *clusterMember) bool {
			samples, err := metricsOf(t.Context(), m.admin)
			return err == nil && samples["ndrbridge_cluster_owner"] == 0
		})
		s.awaitSome(t, 1, "to report why it is not ready", func(m *clusterMember) bool {
			return strings.Contains(m.notReady(t), "NATS does not store its records: nats: API error: code=503 err_code=10023")
		})
		end()
	}
	s.awaitFollowers(t)
	if !slices.ContainsFunc(s.members, func(m *clusterMember) bool { return m.bridge.output.has("NATS refuses what this member appends") }) {
		t.Errorf("no member logs the error of NATS\n%s", s.outputs())
	}
	stopLife()
	stopCommands()
	s.arrive(t, commands)
	s.end(t)
	s.judge(t, commands)
}

// fillStream is the stream of something else on the NATS servers of the cluster.
const fillStream = "FILL"

// fill stores messages in another stream until the NATS servers refuse them.
func (s *clusterScene) fill(t *testing.T) {
	t.Helper()
	js := s.jetStream(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: fillStream, Replicas: clusterServers})
	require.True(t, err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse), err)
	message := make([]byte, 512<<10)
	for deadline := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := js.Publish(ctx, fillStream, message)
		cancel()
		var refused *jetstream.APIError
		if errors.As(err, &refused) && refused.ErrorCode == 10023 {
			return
		}
		require.True(t, time.Now().Before(deadline), "the NATS servers are never full", err)
	}
}

// free deletes what fill stored.
func (s *clusterScene) free(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := s.jetStream(t).DeleteStream(ctx, fillStream)
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
			return
		}
		require.True(t, time.Now().Before(deadline), "delete the stream", err)
	}
}

// limit restarts the NATS servers, one after the other, with a limit of what each stores.
func (s *clusterScene) limit(t *testing.T, bytes int64) {
	t.Helper()
	for _, server := range s.servers.Nodes {
		server.Limit(bytes)
		require.NoError(t, server.Kill())
		require.NoError(t, server.Start())
		for deadline := time.Now().Add(patience); !server.Healthy(t.Context()); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("a NATS server does not become healthy\n%s", server.Log())
			}
		}
	}
}

// notReady returns why a member is not ready; empty: it is ready, or does not answer.
func (m *clusterMember) notReady(t *testing.T) string {
	t.Helper()
	answer, err := http.Get("http://" + m.admin + "/readyz")
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode == http.StatusOK {
		return ""
	}
	return string(text)
}

// awaitMembers waits until something holds of every member at once.
func (s *clusterScene) awaitMembers(t *testing.T, what string, holds func(*clusterMember) bool) {
	t.Helper()
	s.awaitSome(t, len(s.members), what, holds)
}

// awaitSome waits until something holds of so many members at once.
func (s *clusterScene) awaitSome(t *testing.T, least int, what string, holds func(*clusterMember) bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		n := 0
		for _, m := range s.members {
			if holds(m) {
				n++
			}
		}
		if n >= least {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for members %s: %d do\n%s", what, n, s.outputs())
		}
	}
}

// recover has the log continue from the furthest copy, by the command for that. A busy machine may
// delay what members know of each other.
func (s *clusterScene) recover(t *testing.T) {
	t.Helper()
	m := s.members[0]
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		if len(s.cluster(t, m).Members) == len(s.members) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			output, err := exec.CommandContext(ctx, m.program[0], "cluster", "recover", "--yes", "--config", m.config).CombinedOutput()
			cancel()
			t.Logf("recover: %v\n%s", err, output)
			if err == nil {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log is not recovered\n%s", s.outputs())
		}
	}
}
