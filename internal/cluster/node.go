package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
)

// state is what a member does. See the package comment.
type state string

// The states.
const (
	stateAway      state = "away"
	stateFollowing state = "following"
	stateTaking    state = "taking"
	stateOwning    state = "owning"
	stateReleasing state = "releasing"
)

// Node is a member of a cluster. Run is one goroutine with what it starts and waits for; the other
// methods are safe for concurrent use.
type Node struct {
	o        Options
	instance string // the owner that this member is: its name and a random part, one for each Node
	since    time.Time

	// Of Run alone.
	attempts uint64 // to take the log
	refused  refusal

	mu        sync.Mutex
	state     state
	replica   *replica           // following and taking
	ownership *ownership         // owning and releasing
	stop      context.CancelFunc // stops it cleanly; as ownership
	problem   problem
	kept      checkpoint.Point // up to where the copy has the log, while it is closed
	heardAt   time.Duration    // when the servers answered last; of following
	yields    time.Duration    // until when this member leaves a released log to the others
	peers     []Report         // the answers of the members that were reached last
	peersAt   time.Duration    // when they were asked
	recovery  *recovery        // that an operator requested; nil: none
	ill       bool             // as the owner: see Report.Ill
	reaches   bool             // as a standby: see Report.Reaches
	relieved  time.Duration    // when this member handed over last because it was ill; 0: never
}

// problem is why a member can neither own nor follow the log.
type problem struct {
	err      error // nil: there is none
	lost     bool  // the servers lost data: no member may take the log
	needs    uint64
	retryAt  time.Duration
	failures int // one after the other
	failedAt time.Duration
}

// New returns a Node, which does nothing before Run.
func New(o Options) *Node {
	o = o.withDefaults()
	n := &Node{o: o, instance: o.Member + "." + rand.Text()[:16], since: o.Clock.Wall(), state: stateAway, heardAt: o.Clock.Now()}
	o.Metrics.node.Store(n)
	return n
}

// step does what a state is for and returns that of the next state; nil: the member was
// stopped.
type step func(ctx context.Context) step

// Run runs the member until ctx is cancelled. Then it releases the log cleanly if it owns it,
// and returns when everything has stopped. It is called once.
func (n *Node) Run(ctx context.Context) {
	asking, stop := context.WithCancel(context.WithoutCancel(ctx))
	var asks sync.WaitGroup
	asks.Go(func() { n.ask(asking) })
	asks.Go(func() { // a probe takes long, and must not keep the answers of the others from being new
		for n.o.Ill != nil && sleep(asking, n.o.Clock, n.o.Term) {
			n.relieve(asking)
		}
	})
	for next := step(n.away); next != nil; {
		next = next(ctx)
	}
	n.enter(stateAway)
	stop()
	asks.Wait()
}

// enter notes the state.
func (n *Node) enter(state state) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != state {
		n.o.Log.Debug("the member changed its state", "state", state)
	}
	n.state = state
}

// away waits until this member may follow the log.
func (n *Node) away(ctx context.Context) step {
	n.enter(stateAway)
	for ctx.Err() == nil {
		if request := n.requested(); request != nil {
			return n.recovering(request)
		}
		if n.mayTry() {
			return n.open
		}
		sleep(ctx, n.o.Clock, 3*n.o.tick())
	}
	return nil
}

// open opens the replica, which follows the log from then on.
func (n *Node) open(ctx context.Context) step {
	r, err := n.openReplica(ctx)
	switch {
	case err == nil:
		return n.following(r)
	case ctx.Err() != nil:
	case errors.Is(err, replicated.ErrLogLost):
		n.stopTaking(err)
	default:
		n.fail(err)
	}
	return n.away
}

// following follows the log until it is this member's turn to take it.
func (n *Node) following(r *replica) step {
	return func(ctx context.Context) step {
		n.mu.Lock()
		n.replica = r
		n.mu.Unlock()
		n.enter(stateFollowing)
		for {
			status := r.Status()
			n.note(status)
			switch {
			case ctx.Err() != nil:
				n.drop(r)
				return nil
			case n.requested() != nil:
				n.drop(r)
				return n.away
			case r.ended():
				return n.unable(ctx, r)
			case status.Empty && status.Seen == 0: // no generation begins without a record
				n.stopTaking(errors.Join(errors.New("the log is empty"), n.drop(r)))
				return n.away
			case n.mayTake(r, status):
				return n.taking(r, status)
			}
			sleep(ctx, n.o.Clock, n.o.tick())
		}
	}
}

// note notes that the servers answered, and that the copy fits the log.
func (n *Node) note(f replicated.FollowerStatus) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.Quiet > 0 {
		n.heardAt = n.o.Clock.Now()
		if f.Last > 0 && f.Seen > 0 {
			n.problem.err, n.problem.lost, n.problem.needs = nil, false, 0
		}
	}
}

// mayTake reports whether it is this member's turn to take the log.
func (n *Node) mayTake(r *replica, f replicated.FollowerStatus) bool {
	if !caughtUp(f) || f.Quiet == 0 {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.o.Clock.Now()
	wait, fresh := gone(f.Term, n.o.Term)+r.patience, n.o.Term/2
	if f.Released {
		wait, fresh = 0, 2*n.o.Term
	}
	if f.Quiet < wait || now < n.yields || now-n.peersAt > fresh {
		return false
	}
	for _, p := range n.peers { // a log that ends before another member's copy lost its end
		if p.Instance != n.instance && (p.Lost || p.identity() == r.identity && p.Offset > f.Last) {
			return false
		}
		if p.Layout < checkpoint.Layout && p.CaughtUp && f.Quiet < 2*gone(f.Term, n.o.Term) {
			return false // a member of an older version can go on, and could no longer follow this one
		}
	}
	return true
}

// caughtUp reports whether a follower has seen every known message of the log.
func caughtUp(f replicated.FollowerStatus) bool { return f.Seen >= f.Last && f.Last > 0 }

// unable handles a replica that can no longer follow. Its file is restored if it does not fit the
// log, because this member was away for long or the machine crashed. If the log lacks records of
// the file, the file is kept until an operator has the log continued.
func (n *Node) unable(ctx context.Context, r *replica) step {
	err := n.drop(r)
	switch {
	case errors.Is(err, replicated.ErrLogLost):
		n.stopTaking(err)
	case errors.Is(err, replicated.ErrDiverged), errors.Is(err, checkpoint.ErrDamaged):
		return n.unfit(r, err)
	case ctx.Err() == nil:
		n.fail(err)
	}
	return n.away
}

// unfit sets aside or removes the file of a replica that was dropped, because it does not fit the
// log, so that it is restored. One that was just restored waits for a snapshot.
func (n *Node) unfit(r *replica, err error) step {
	n.o.Log.Warn("the copy of the state does not fit the log and is restored", "error", err)
	switch {
	case errors.Is(err, checkpoint.ErrDamaged), errors.Is(err, replicated.ErrPurged):
		err = n.o.files.remove(n.o.Path)
	case !r.fresh:
		err = n.setAside(r.file.At())
	default: // the log lost a message, or has a wrong one: only a snapshot leads past it
		n.mu.Lock()
		n.problem.needs = r.Status().Seen + 1
		n.mu.Unlock()
		err = fmt.Errorf("the copy of the state was just restored, and does not fit the log; it is restored again when the owner has made a snapshot; without an owner, see 'ndrbridge cluster recover': %w", err)
	}
	if err != nil {
		n.fail(err)
		return n.away
	}
	return n.open
}

// setAside renames the file of the copy, which is closed, so that it is restored and nothing is
// lost.
func (n *Node) setAside(at checkpoint.Point) error {
	to := fmt.Sprintf("%s.%d-%d.lost", n.o.Path, replicated.IdentityOf(at).Generation, at.Offset)
	if err := n.o.files.rename(n.o.Path, to); err != nil {
		return err
	}
	n.o.Log.Warn("the copy of the state was set aside; if nothing that it has is missed, delete it", "file", to)
	return nil
}

// drop closes a replica and returns why it stopped.
func (n *Node) drop(r *replica) error {
	n.mu.Lock()
	n.replica = nil
	n.mu.Unlock()
	err := r.close()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kept = r.file.At()
	return err
}

const (
	// maxFailures bounds the back-off after failures: 2^6 terms.
	maxFailures = 7
	// forgetTerms is after how many terms without a failure the back-off begins again.
	forgetTerms = 100
)

// fail keeps this member from following and owning for a while: each time longer, so that a broken
// disk does not have the log taken again and again.
func (n *Node) fail(err error) { n.failed(err, false) }

// stopTaking keeps this member, and all that see its report, from taking the log, because NATS
// lost data. The copy is kept.
func (n *Node) stopTaking(err error) {
	n.failed(fmt.Errorf("no member takes the log, because NATS lost it or a part of it: restore the data of NATS, or continue from the copy of a member with 'ndrbridge cluster recover': %w", err), true)
}

func (n *Node) failed(err error, lost bool) {
	n.mu.Lock()
	p := &n.problem
	now := n.o.Clock.Now()
	if now-p.failedAt > forgetTerms*n.o.Term {
		p.failures = 0
	}
	wait := n.o.Term
	level := slog.LevelWarn
	if lost {
		level = slog.LevelError
	}
	if !lost && p.needs == 0 && !needsOperator(err) {
		p.failures, p.failedAt = min(p.failures+1, maxFailures), now
		wait <<= p.failures - 1
	}
	said := p.err != nil && p.err.Error() == err.Error()
	p.err, p.lost, p.retryAt = err, lost, now+wait
	n.mu.Unlock()
	if !said {
		n.o.Log.Log(context.Background(), level, "this member can neither own nor follow the log; retrying", "in", wait, "error", err)
	}
}

// needsOperator reports whether an error lasts until an operator, or another member, has acted: no
// attempt of this member fails because of it, or changes anything.
func needsOperator(err error) bool {
	return errors.Is(err, checkpoint.ErrNewer) || errors.Is(err, replicated.ErrMoved) || errors.Is(err, replicated.ErrNoKey)
}

// mayTry reports whether this member may try to follow: it did not fail to lately.
func (n *Node) mayTry() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.problem.err == nil || n.o.Clock.Now() >= n.problem.retryAt
}

// NotReady returns the reasons why this member is not ready, a sentence each: it neither owns nor
// can take the log, its lease is over, the servers do not answer, or its configuration differs
// from the owner's.
func (n *Node) NotReady() (reasons []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.problem.err != nil:
		return []string{n.problem.err.Error()}
	case n.ownership != nil && n.ownership.lease.Left() == 0:
		return []string{n.ownership.notReady()}
	case n.state == stateAway:
		return []string{"it opens its copy of the state"}
	case n.replica == nil:
		return nil
	}
	if silent := n.unheard(); silent > 0 {
		reasons = append(reasons, fmt.Sprintf("the NATS servers of the cluster have not answered for %s", silent.Round(time.Second)))
	}
	if owner, differs := n.differs(); differs {
		reasons = append(reasons, fmt.Sprintf("its configuration differs from that of the owner, %s: give all members the same one", owner.Member))
	}
	return reasons
}

// unheard returns for how long the servers have not answered a standby, if that is too long for it
// to take the log; 0: it is not. The mutex is held.
func (n *Node) unheard() time.Duration {
	if silent := n.o.Clock.Now() - n.heardAt; silent > n.o.Term/2 {
		return silent
	}
	return 0
}

// differs reports whether this member follows an owner of its version with another configuration,
// and what that owner is. The mutex is held.
func (n *Node) differs() (owner replicated.Owner, differs bool) {
	if n.replica == nil {
		return owner, false
	}
	owner = n.replica.Status().About
	return owner, owner.Version == n.o.Version && owner.Config != n.o.ConfigHash()
}

// Owner returns what is known of the owner of the log, and whether that is this member. ok is false
// while the log has no owner with a lease, as far as this member knows; left is how long the lease
// of the last one lasts.
func (n *Node) Owner() (o replicated.Owner, self bool, left time.Duration, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.ownership != nil:
		left = n.ownership.lease.Left()
		return n.describe(), true, left, left > 0
	case n.replica == nil:
		return o, false, 0, false
	}
	f := n.replica.Status()
	left = gone(f.Term, n.o.Term) - (n.o.Clock.Now() - n.heardAt) - f.Quiet
	return f.About, false, max(0, left), f.Quiet > 0 && left > 0 && !f.Released && f.About.Member != ""
}

// describe returns what a take and each renewal say of this member.
func (n *Node) describe() replicated.Owner {
	return replicated.Owner{Member: n.o.Member, Version: n.o.Version, URL: n.o.URL(), Config: n.o.ConfigHash()}
}
