package crash

import (
	"syscall"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

// TestClusterSabotageIsDetected lets members of a cluster lose the log while they send and
// while they are paused, and passes only if what members without the guard and without the
// fence do then is detected. Members without a fault do nothing of that.
func TestClusterSabotageIsDetected(t *testing.T) {
	t.Parallel()
	ofBoth(t, sabotageIsDetected)
}

func sabotageIsDetected(t *testing.T, servers natsServers) {
	if servers == embedded && !judgesTiming() {
		t.Skip("three more clusters take long: make torture-cluster EMBEDDED=1 runs them")
	}
	program := build(t, "ndrbridge/test/crash/faulty")
	for _, c := range []struct {
		name  string
		fault string // of the program faulty
		scene []func(*clusterScene, *testing.T)
		found string
	}{
		{"no fault", "", []func(*clusterScene, *testing.T){(*clusterScene).sendLate, (*clusterScene).appendLate}, ""},
		{"no guard", "no-guard", []func(*clusterScene, *testing.T){(*clusterScene).sendLate}, "without having taken the log"},
		{"no fence", "no-fence", []func(*clusterScene, *testing.T){(*clusterScene).appendLate}, "is in the log, which"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newClusterScene(t, []string{program, "--fault=" + c.fault}, 1, servers)
			s.startAll(t)
			if late := s.awaitAt(clusterSinks...); late != "" {
				t.Fatalf("%s\n%s", late, s.outputs())
			}
			for _, scene := range c.scene {
				scene(s, t)
			}
			s.readLog(t)
			expectFaults(t, s.faults(), c.fault, c.found)
		})
	}
}

// owner waits until the log has an owner other than but, and returns it.
func (s *clusterScene) owner(t *testing.T, but *clusterMember) *clusterMember {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		for _, m := range s.members {
			if m != but && s.owners.owned(m) {
				return m
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log has no owner\n%s", s.outputs())
		}
	}
}

// reached waits until a sink has received more than before events.
func (s *clusterScene) reached(t *testing.T, sink string, before int) {
	t.Helper()
	for deadline := time.Now().Add(patience); s.received(sink) <= before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: nothing arrives\n%s", sink, s.outputs())
		}
	}
}

// sendLate lets a member try to deliver a version while it loses the log, and reach the
// webhook only when the next owner has delivered a newer version.
func (s *clusterScene) sendLate(t *testing.T) {
	sensor := s.sensors[0]
	owner := s.owner(t, nil)
	joinSink := cut(owner.sinks[webhookSink])
	before := s.received(natsSink)
	added := sensor.appliance.AddMany(1)[0]
	s.reached(t, natsSink, before) // it was committed, and the webhook does not answer
	joinServers := cut(owner.servers...)
	next := s.owner(t, owner)
	t.Logf("%s lost the log to %s", owner.name, next.name)
	for n := 0; n < 2; n++ {
		before = s.received(webhookSink)
		require.NoError(t, sensor.appliance.Update(func(d *standin.Detection) { d.RiskScore = new(n + 1) }, added.ID))
		s.reached(t, webhookSink, before)
	}
	joinSink(t)
	time.Sleep(2 * time.Second) // longer than the member waits before it tries again
	joinServers(t)
	s.owner(t, nil)
	time.Sleep(time.Second)
}

// appendLate pauses a member until it has lost the log, and lets it go on.
func (s *clusterScene) appendLate(t *testing.T) {
	owner := s.owner(t, nil)
	owner.signal(t, syscall.SIGSTOP)
	next := s.owner(t, owner)
	t.Logf("%s lost the log to %s", owner.name, next.name)
	owner.signal(t, syscall.SIGCONT)
	time.Sleep(2 * clusterLease) // it renews its lease in between
}
