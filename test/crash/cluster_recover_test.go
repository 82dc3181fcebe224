package crash

import (
	"context"
	"errors"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/require"
)

// TestClusterIsRecovered empties all NATS servers of a cluster while detections change and ticket
// commands arrive, and has the log continue from the copy of the member that has most of it. Until
// then no member acts. Nothing that was acknowledged is lost: a member has it.
func TestClusterIsRecovered(t *testing.T) {
	t.Parallel()
	s := newClusterScene(t, buildBridge(t), 1)
	stopLife := s.live(t, clusterRates)
	s.startAll(t)
	commands, stopCommands := s.drive(t)
	s.reached(t, webhookSink, s.received(webhookSink)+100)
	s.readLog(t)
	for _, server := range s.servers.Nodes {
		require.NoError(t, server.Kill())
	}
	for _, server := range s.servers.Nodes {
		require.NoError(t, server.Clear())
		require.NoError(t, server.Start())
	}
	s.awaitLost(t)
	time.Sleep(clusterLease) // a busy receiver may be late
	before := s.received(webhookSink)
	time.Sleep(2 * clusterLease)
	if n := s.received(webhookSink) - before; n > 0 {
		t.Errorf("%d events were sent while the log was lost", n)
	}
	s.recover(t)
	s.log.begin(2)
	s.awaitFollowers(t)
	stopLife()
	stopCommands()
	s.arrive(t, commands)
	s.end(t)
	s.judge(t, commands)
}

// awaitLost waits until every member says that the log is lost, and none owns it.
func (s *clusterScene) awaitLost(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		lost := 0
		for _, m := range s.members {
			samples, err := metricsOf(t.Context(), m.admin)
			if err == nil && samples["ndrbridge_cluster_log_lost"] == 1 && samples["ndrbridge_cluster_owner"] == 0 {
				lost++
			}
		}
		if lost == len(s.members) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d members say that the log is lost\n%s", lost, s.outputs())
		}
	}
}

// recover has the log continue from the copy of the member that has most of it. A busy
// machine may delay what members know of each other.
func (s *clusterScene) recover(t *testing.T) {
	t.Helper()
	client, err := admin.NewClient("http://"+s.members[0].admin, "")
	require.NoError(t, err)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		var furthest admin.ClusterMember
		members := s.cluster(t, s.members[0]).Members
		for _, m := range members {
			if m.Offset > furthest.Offset {
				furthest = m
			}
		}
		err := errors.New("not all members can be reached")
		if len(members) == len(s.members) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err = admin.API.RecoverCluster.Do(ctx, client, admin.Recovery{From: furthest.Member})
			cancel()
		}
		if err == nil {
			t.Logf("the log continues from message %d of %s", furthest.Offset, furthest.Member)
			return
		}
		t.Logf("recover: %v", err)
		if time.Now().After(deadline) {
			t.Fatalf("the log is not recovered\n%s", s.outputs())
		}
	}
}
