// Package fault breaks connections as networks do. A Proxy stands between
// clients and a server and lets each connection meet what a seeded Plan has for
// it.
package fault

import (
	"math"
	"math/rand/v2"
	"time"
)

// Kind is a way in which a connection fails.
type Kind int

// The kinds. All but HalfOpen strike in the middle of what the client sends.
const (
	Reset    Kind = iota + 1 // both ends are reset
	Stall                    // what the client sends is held for a while; none of it arrives if the client gives up
	HalfOpen                 // the connection is accepted, and nothing ever comes of it
	Deaf                     // what the client sends arrives, and no answer comes back any more
	Lost                     // the server's next answer is swallowed, and the client is reset in its place
	Delay                    // from there on everything comes late, in both directions
	end
)

// Kinds are all there are.
func Kinds() []Kind {
	kinds := make([]Kind, 0, end-Reset)
	for k := Reset; k < end; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// String is the kind's name, for reports.
func (k Kind) String() string {
	return [...]string{"none", "reset", "stall", "half-open", "deaf", "lost answer", "delay"}[k]
}

// Plan says what becomes of connections. The zero value leaves them in peace.
type Plan struct {
	// Seed decides everything that is left to chance: the same plan has the same
	// result for a proxy's first connection, its second, and so on.
	Seed uint64
	// Likely is how likely a connection meets a fault, between 0 and 1.
	Likely float64
	// Kinds are what it may meet, one as likely as the other; nil: all kinds.
	Kinds []Kind
	// Within is how many bytes of the client's a fault lets through at most before
	// it strikes; 0: 64 KiB. A few are as likely as many.
	Within int
	// Longest bounds how long a stall lasts; 0: a second. A delay is a
	// fiftieth of it at most.
	Longest time.Duration
}

// result is what one connection meets.
type faultAt struct {
	kind  Kind // 0: nothing
	after int  // bytes of the client's
	wait  time.Duration
}

// result returns that of the nth connection.
func (p Plan) fault(n uint64) faultAt {
	const (
		within  = 64 << 10
		longest = time.Second
	)
	kinds := p.Kinds
	if kinds == nil {
		kinds = Kinds()
	}
	if p.Within == 0 {
		p.Within = within
	}
	if p.Longest == 0 {
		p.Longest = longest
	}
	random := rand.New(rand.NewPCG(p.Seed, n))
	if random.Float64() >= p.Likely {
		return faultAt{}
	}
	f := faultAt{
		kind:  kinds[random.IntN(len(kinds))],
		after: int(math.Pow(float64(p.Within), random.Float64())),
		wait:  time.Duration(random.Int64N(int64(p.Longest))),
	}
	if f.kind == Delay {
		f.wait /= 50
	}
	return f
}
