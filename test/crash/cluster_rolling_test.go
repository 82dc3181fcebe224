package crash

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

// TestClusterRollingRestart replaces the bridges of a cluster by those of a newer version,
// one after the other, while detections change and ticket commands arrive. Nothing is lost.
// If timing is judged, the events do not pause for long; otherwise one bridge is enough.
func TestClusterRollingRestart(t *testing.T) {
	t.Parallel()
	const (
		older, newer = "1.0.0", "1.1.0"
		pauseLimit   = time.Second     // of an orderly handover
		between      = 2 * time.Second // of two restarts
	)
	s := newClusterScene(t, buildVersion(t, older), 1, separate)
	updated := buildVersion(t, newer)
	stopLife := s.liveAlike(t, standin.Rates{Appear: 8, Update: 8})
	s.startAll(t)
	commands, stopCommands := s.drive(t)
	begun := time.Now()
	replaced := s.members
	if !judgesTiming() {
		replaced = []*clusterMember{s.owner(t, nil)}
	}
	for _, m := range replaced {
		time.Sleep(between)
		stopping := time.Now()
		m.stop(t)
		took := time.Since(stopping)
		m.program = updated
		m.start(t)
		s.awaitVersion(t, m, newer)
		s.awaitFollowers(t)
		t.Logf("%s stopped within %v and followed again after %v", m.name, took.Round(time.Millisecond), time.Since(stopping).Round(time.Millisecond))
	}
	time.Sleep(between)
	ended := time.Now()
	stopLife()
	stopCommands()
	s.arrive(t, commands)
	var pauses []time.Duration
	for _, run := range s.senders.all() {
		if run.first.After(begun) && run.first.Before(ended) {
			pauses = append(pauses, run.before.Round(time.Millisecond))
		}
	}
	t.Logf("the sender changed %d times, with pauses of %v", len(pauses), pauses)
	if judgesTiming() && len(pauses) > 0 && slices.Max(pauses) > pauseLimit {
		t.Errorf("a handover took %v", slices.Max(pauses))
	}
	s.end(t)
	s.judge(t, commands)
}

// awaitVersion waits until a member sees itself in the cluster with a version.
func (s *clusterScene) awaitVersion(t *testing.T, m *clusterMember, version string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		seen := s.cluster(t, m)
		if slices.ContainsFunc(seen.Members, func(c admin.ClusterMember) bool { return c.Member == m.name && c.Version == version }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not join: %+v\n%s", m.name, seen.Members, s.outputs())
		}
	}
}

// liveAlike simulates the same number of changes at every appliance but the idle ones until stop
// is called.
func (s *clusterScene) liveAlike(t *testing.T, rates standin.Rates) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var living sync.WaitGroup
	for _, sensor := range s.sensors {
		if !sensor.idle {
			living.Go(func() { sensor.appliance.Live(ctx, rates) })
		}
	}
	stop = func() { cancel(); living.Wait() }
	t.Cleanup(stop)
	return stop
}

// cluster returns the cluster as a member sees it.
func (s *clusterScene) cluster(t *testing.T, m *clusterMember) admin.Cluster {
	t.Helper()
	client, err := admin.NewClient("http://"+m.admin, "")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	seen, err := admin.API.GetCluster.Call(ctx, client, admin.None{})
	if err != nil {
		return admin.Cluster{} // it is starting
	}
	return seen
}

// awaitFollowers waits until every member lives, the log has an owner, and a follower had caught up
// since the call: it is behind again whenever something comes.
func (s *clusterScene) awaitFollowers(t *testing.T) {
	t.Helper()
	s.awaitHealthy(t)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		seen := s.cluster(t, s.members[0])
		level := func(m admin.ClusterMember) bool { return m.State == admin.MemberFollowing && m.Ready && m.Behind == 0 }
		if seen.Owner != "" && len(seen.Members) == len(s.members) && slices.ContainsFunc(seen.Members, level) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody follows: %+v\n%s", seen, s.outputs())
		}
	}
}
