package crash

import (
	"math"
	"math/rand/v2"
	"time"
)

// clusterFault is a kind of disturbance of a cluster.
type clusterFault int

const (
	killBridge   clusterFault = iota // SIGKILL, and a new start
	pauseBridge                      // SIGSTOP and SIGCONT
	stopBridge                       // SIGTERM, and a new start
	killServer                       // SIGKILL of a NATS server, and a new start
	cutRoute                         // two NATS servers lose each other
	cutServer                        // a bridge loses a NATS server
	isolate                          // a bridge loses every NATS server
	cutSink                          // a bridge loses a sink; all bridges lose Kafka
	cutAppliance                     // a bridge loses every appliance
	killLeader                       // SIGKILL of the NATS server that leads the log, and a new start
	killMajority                     // SIGKILL of two NATS servers, and a new start
	pauseServers                     // SIGSTOP and SIGCONT of a NATS server, or two
	stallSink                        // the webhook's receiver does not answer
	deleteFolder                     // SIGKILL, a loss of the bridge's files, and a new start
	restartAll                       // SIGKILL of all bridges at once, and a new start
	operate                          // SIGKILL of a bridge, and commands to reload and to hand over meanwhile
	handOver                         // a command to hand over
	fillDisk                         // a bridge can store nothing
	clusterFaults
)

// String returns the fault's name, for the log.
func (f clusterFault) String() string {
	return [...]string{
		"kill a bridge", "pause a bridge", "stop a bridge", "kill a NATS server", "cut a route", "cut a bridge from a NATS server",
		"cut a bridge from all NATS servers", "cut a sink", "cut the appliances", "kill the NATS server that leads", "kill two NATS servers",
		"pause NATS servers", "stall a receiver", "kill a bridge and delete its folder", "kill all bridges", "kill a bridge, reload and hand over",
		"hand over", "fill a bridge's disk",
	}[f]
}

// ofServers reports whether the fault takes NATS servers from each other. Two of these
// would mix up which servers are a majority.
func (f clusterFault) ofServers() bool {
	switch f {
	case killServer, cutRoute, killLeader, killMajority, pauseServers:
		return true
	}
	return false
}

// ofMembers reports whether the fault ends a bridge, or has it do nothing.
func (f clusterFault) ofMembers() bool {
	switch f {
	case killBridge, pauseBridge, stopBridge, deleteFolder, restartAll, operate, fillDisk:
		return true
	}
	return false
}

// clusterStep is a fault of a plan.
type clusterStep struct {
	fault  clusterFault
	bridge int           // its number, for faults of bridges
	owner  bool          // it is rather the owner
	peer   int           // a number: of a NATS server, a pair of them, or a sink
	pause  time.Duration // before it, after the one before began
	lasts  time.Duration
	alone  bool // it begins after the others are over and the log has an owner, and the next after it likewise
}

// clusterPlan are the limits of random choices.
type clusterPlan struct {
	seed    uint64
	servers natsServers
	faults  int
	longest time.Duration // a pause of a bridge; other faults are shorter
	apart   time.Duration // the longest pause between faults
}

// steps draws the faults. Each kind occurs once in as many as there are kinds. An embedded server is
// killed with its bridge, which never loses it. One whose files are deleted must get them back from
// both of the others.
func (p clusterPlan) steps() []clusterStep {
	random := rand.New(rand.NewPCG(p.seed, 3))
	// Orders of magnitude are equally likely.
	between := func(least, most time.Duration) time.Duration {
		return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), random.Float64()))
	}
	const short = 300 * time.Millisecond
	var steps []clusterStep
	for len(steps) < p.faults {
		for _, kind := range random.Perm(int(clusterFaults)) {
			s := clusterStep{
				fault: clusterFault(kind), bridge: random.IntN(clusterMembers), peer: random.IntN(clusterServers),
				owner: random.IntN(3) > 0,
				pause: between(short, p.apart), lasts: between(short, p.longest/2), alone: random.IntN(3) == 0,
			}
			if s.fault == pauseBridge {
				s.lasts = between(short, p.longest)
			}
			if p.servers == embedded && (s.fault == killServer || s.fault == cutServer) {
				continue
			}
			if p.servers == embedded && s.fault == deleteFolder {
				s.alone = true
			}
			steps = append(steps, s)
		}
	}
	return steps[:p.faults]
}
