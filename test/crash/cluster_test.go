package crash

import (
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
)

// clusterRates are the changes at the appliances of a cluster.
var clusterRates = standin.Rates{
	Appear: 8, Update: 10, Close: 2, Edit: 1, Late: 0.3, Future: 0.05, Tie: 0.02, Neighbours: 0.02,
	TieSize: 60, NeighbourSize: 40, LateBy: 20 * time.Minute, FutureBy: 3 * time.Second,
	AuditEntries: 3, Records: 5, RecordsLate: 0.3, RecordsTie: 0.02, RecordTieSize: 60, RecordLateBy: time.Second,
}

// TestClusterLosesNothing kills, pauses, stops and cuts off the bridges and NATS servers of
// a cluster while detections change and ticket commands arrive. It compares what each sink
// received with what the appliances returned and the cluster committed, and what was written
// to the appliances with the acknowledged commands. It checks that no member acts once
// another one has taken the log. The environment sets the number of faults
// (CLUSTER_FAULTS) and the seed of the plan (SEED). With embedded servers, a fault of a bridge is one
// of its NATS server, and the files of a member that are deleted are those of its server, too. With CLUSTER_FAULTS it also checks that
// the log is taken over in time.
func TestClusterLosesNothing(t *testing.T) {
	t.Parallel()
	ofBoth(t, losesNothing)
}

func losesNothing(t *testing.T, servers natsServers) {
	faults := setting(t, "CLUSTER_FAULTS", 0)
	seed := uint64(setting(t, "SEED", int(time.Now().UnixNano()&0xffffff)))
	plan := clusterPlan{seed: seed, servers: servers, faults: faults, longest: 20 * time.Second, apart: 6 * time.Second}
	if faults == 0 {
		plan.faults, plan.longest, plan.apart = int(clusterFaults), 6*time.Second, 1500*time.Millisecond
	}
	if faults == 0 && servers == embedded {
		plan.faults = 5 // the elections of these servers take long
	}
	t.Logf("CLUSTER_FAULTS=%d SEED=%d", plan.faults, seed)
	s := newClusterScene(t, buildBridge(t), seed, servers)
	stopLife := s.live(t, clusterRates)
	s.startAll(t)
	commands, stopCommands := s.drive(t)
	begun := time.Now()
	s.endure(t, plan.steps())
	t.Logf("%d faults took %v", plan.faults, time.Since(begun))
	stopLife()
	stopCommands()
	s.arrive(t, commands)
	t.Logf("everything arrived after %v", time.Since(begun))
	s.end(t)
	s.judge(t, commands)
}
