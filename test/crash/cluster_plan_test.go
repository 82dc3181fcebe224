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
	clusterFaults
)

// String returns the fault's name, for the log.
func (f clusterFault) String() string {
	return [...]string{
		"kill a bridge", "pause a bridge", "stop a bridge", "kill a NATS server", "cut a route", "cut a bridge from a NATS server",
		"cut a bridge from all NATS servers", "cut a sink", "cut the appliances",
	}[f]
}

// ofServers reports whether the fault takes NATS servers from each other. Two of these
// would leave no majority.
func (f clusterFault) ofServers() bool { return f == killServer || f == cutRoute }

// clusterStep is a fault of a plan.
type clusterStep struct {
	fault  clusterFault
	bridge int           // its number, for faults of bridges
	most   bool          // it is rather the one that owns the most shards
	peer   int           // a number: of a NATS server, a pair of them, or a sink
	pause  time.Duration // before it, after the one before began
	lasts  time.Duration
	alone  bool // it begins after the others are over and every shard has an owner, and the next after it likewise
}

// clusterPlan are the limits of random choices.
type clusterPlan struct {
	seed    uint64
	faults  int
	longest time.Duration // a pause of a bridge; other faults are shorter
	apart   time.Duration // the longest pause between faults
}

// steps draws the faults. Each kind occurs once in nine.
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
				most:  random.IntN(2) == 0,
				pause: between(short, p.apart), lasts: between(short, p.longest/2), alone: random.IntN(3) == 0,
			}
			if s.fault == pauseBridge {
				s.lasts = between(short, p.longest)
			}
			steps = append(steps, s)
		}
	}
	return steps[:p.faults]
}
