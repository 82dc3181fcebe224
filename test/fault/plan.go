// Package fault simulates failures of network connections. A Proxy between clients and a
// server injects faults into its connections according to a seeded Plan.
package fault

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"
)

// Kind is a kind of failure of a connection.
type Kind int

// The kinds. All but HalfOpen are injected in the middle of the client's data.
const (
	Reset    Kind = iota + 1 // both ends are reset
	Stall                    // the client's data is delayed once; if the client gives up meanwhile, it is discarded
	HalfOpen                 // the connection is accepted and then ignored
	Mute                     // the client's data arrives, but no more responses return
	Lost                     // the server's next response is discarded and the connection reset
	Delay                    // from then on data is delayed in both directions
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Reset, Stall, HalfOpen, Mute, Lost, Delay} }

// String returns the kind's name, for reports.
func (k Kind) String() string {
	return [...]string{"none", "reset", "stall", "half-open", "mute", "lost response", "delay"}[k]
}

// Plan selects the faults of connections. The zero value injects none.
type Plan struct {
	// Seed seeds the random choices: the same plan selects the same fault for a proxy's
	// first connection, its second, and so on.
	Seed uint64
	// Likely is the probability of a fault in a connection, between 0 and 1.
	Likely float64
	// Kinds are the possible kinds, with equal probabilities; nil: all kinds.
	Kinds []Kind
	// Within is the maximum number of bytes from the client before the fault; 0: 64 KiB.
	// Orders of magnitude are equally likely.
	Within int
	// Longest is the maximum duration of a stall; 0: a second. The maximum delay is a
	// fiftieth of it.
	Longest time.Duration
}

// faultAt is the fault of one connection.
type faultAt struct {
	kind  Kind // 0: no fault
	after int  // bytes from the client before it
	wait  time.Duration
}

// fault returns the fault of the nth connection.
func (p Plan) fault(n uint64) faultAt {
	kinds := p.Kinds
	if kinds == nil {
		kinds = Kinds()
	}
	within, longest := cmp.Or(p.Within, 64<<10), cmp.Or(p.Longest, time.Second)
	random := rand.New(rand.NewPCG(p.Seed, n))
	if random.Float64() >= p.Likely {
		return faultAt{}
	}
	f := faultAt{
		kind:  kinds[random.IntN(len(kinds))],
		after: int(math.Pow(float64(within), random.Float64())),
		wait:  time.Duration(random.Int64N(int64(longest))),
	}
	if f.kind == Delay {
		f.wait /= 50
	}
	return f
}
