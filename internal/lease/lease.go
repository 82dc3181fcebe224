// Package lease bounds how long a process may act as the owner of a log.
//
// The owner renews a Lease with every record that its log stored. Others take over
// only after the lease is over, so that what is done under it is never done by two
// processes at once. A Lease does not fence: the log refuses the records of a process
// that lost it. It keeps such a process from sending what the log cannot refuse.
//
//	New ──► over ◄── time, or a jump of the wall clock ── valid ◄─┐
//	         │                                            ▲  │    │ Renew
//	         ├──────────────── Renew ─────────────────────┘  └────┘
//	         │                                               │
//	         └── End ──────────────► ended ◄────────── End ──┘
//
// Time is that of a Clock, which goes on while the machine is suspended. A virtual
// machine may be paused without it; its wall clock is corrected afterwards. So a wall
// clock that jumps ahead shortens the lease by the jump.
//
// What the kernel was given before the lease ended may still arrive. So may one write
// of at most 64 KiB if the process is stopped directly between the check and the system
// call.
package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// ErrExpired is the error of everything that needs a lease while there is none.
var ErrExpired = errors.New("the lease is over: another process may be the owner")

// Lease is how long a log is owned. It is safe for concurrent use. A nil *Lease never
// ends and has no cost; its Renew and End must not be called.
type Lease struct {
	term  time.Duration
	clock Clock

	mu       sync.Mutex
	ended    bool          // for good
	until    time.Duration // by clock.Now
	lead     time.Duration // of the wall clock over clock.Now; what is above it is a jump
	lastLead time.Duration // at the last Renew
	timer    func() bool   // stops the pending call of expire; nil: there is none
	contexts map[*bound]struct{}
	conns    map[*conn]struct{}
}

// bound is a context that ends with the lease.
type bound struct{ cancel context.CancelCauseFunc }

// checks is how often during a term the clocks are read, so that contexts and connections
// end soon after a suspension or a jump, of which a timer knows nothing.
const checks = 8

// New returns a lease of the given term, which must be above 0. It is over until the
// first Renew.
func New(term time.Duration, c Clock) *Lease {
	l := &Lease{term: term, clock: c, contexts: make(map[*bound]struct{}), conns: make(map[*conn]struct{})}
	wall := c.Wall()
	l.lastLead = leadOf(wall, c.Now())
	return l
}

// Gone returns how long after the last sign of life of a process its lease of a term is over, by
// the clock of another one: a quarter later, because clocks may differ in rate.
func Gone(term time.Duration) time.Duration { return term + term/4 }

// Renew makes the lease valid for a term from begun, which is Clock.Now before the record
// was sent that renewed it. It never shortens the lease. It has no effect after End.
func (l *Lease) Renew(begun time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// In this order: if the process is stopped between the two, the jump seems larger
	// than it is.
	wall := l.clock.Wall()
	lead := leadOf(wall, l.clock.Now())
	// A jump since the last renewal may have been after begun: it counts.
	l.lead, l.lastLead = min(lead, l.lastLead), lead
	l.until = max(l.until, begun+l.term)
	l.arm()
}

// End ends the lease at once and for good. When it returns, the contexts are cancelled
// and the connections reset.
func (l *Lease) End() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.expire()
}

// Left returns how long the lease is still valid; 0: it is over.
func (l *Lease) Left() time.Duration {
	if l == nil {
		return math.MaxInt64
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left()
}

// Check returns ErrExpired if the lease is over.
func (l *Lease) Check() error {
	if l == nil || l.Left() > 0 {
		return nil
	}
	return ErrExpired
}

// Context returns a copy of ctx that is cancelled with the cause ErrExpired when the lease
// ends; at once if it is over. Renewals move that moment. A lease that is renewed later
// does not revive it. The caller must call release when it no longer needs the context.
func (l *Lease) Context(ctx context.Context) (_ context.Context, release context.CancelFunc) {
	if l == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	b := &bound{cancel}
	l.mu.Lock()
	valid := l.left() > 0
	if valid {
		l.contexts[b] = struct{}{}
	}
	l.mu.Unlock()
	if !valid {
		cancel(ErrExpired)
	}
	return ctx, func() {
		l.mu.Lock()
		delete(l.contexts, b)
		l.mu.Unlock()
		cancel(nil)
	}
}

// Do calls f with a Context. If the lease is over, it does not call f and returns
// ErrExpired. If it ends during the call, an error of f is wrapped with ErrExpired.
func (l *Lease) Do(ctx context.Context, f func(context.Context) error) error {
	if l == nil {
		return f(ctx)
	}
	if err := l.Check(); err != nil {
		return err
	}
	ctx, release := l.Context(ctx)
	defer release()
	err := f(ctx)
	if err != nil && (errors.Is(context.Cause(ctx), ErrExpired) || l.Check() != nil) {
		return fmt.Errorf("%w: %w", ErrExpired, err)
	}
	return err
}

// left is Left. The caller holds mu.
func (l *Lease) left() time.Duration {
	if l.ended {
		return 0
	}
	// In this order: if the process is stopped between the two, that seems a jump.
	now := l.clock.Now()
	jump := leadOf(l.clock.Wall(), now) - l.lead
	return max(0, l.until-now-max(0, jump))
}

// leadOf returns how far the wall clock is ahead of now.
func leadOf(wall time.Time, now time.Duration) time.Duration {
	return time.Duration(wall.UnixNano()) - now
}

// arm makes expire be called when the lease ends, or earlier. The caller holds mu.
func (l *Lease) arm() {
	if left := l.left(); left > 0 && l.timer == nil {
		l.timer = l.clock.AfterFunc(min(left, max(1, l.term/checks)), l.expire)
	}
}

// expire ends the contexts and the connections if the lease is over.
func (l *Lease) expire() {
	l.mu.Lock()
	if l.timer != nil {
		l.timer()
		l.timer = nil
	}
	if l.left() > 0 {
		l.arm()
		l.mu.Unlock()
		return
	}
	contexts, conns := l.contexts, l.conns
	l.contexts, l.conns = make(map[*bound]struct{}), make(map[*conn]struct{})
	l.mu.Unlock()
	// First these: who sees its context end closes its connection, and what is in the
	// kernel's buffer would be sent.
	for c := range conns {
		c.reset()
	}
	for b := range contexts {
		b.cancel(ErrExpired)
	}
}
