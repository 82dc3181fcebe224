package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ndrbridge/internal/lease"
)

// sleep waits for d by clock. It reports false if ctx is done.
func sleep(ctx context.Context, clock lease.Clock, d time.Duration) bool {
	over := make(chan struct{})
	stop := clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-ctx.Done():
		return false
	case <-over:
		return true
	}
}

// Handover has this member, the owner, stop cleanly and release the log, and returns when another
// member owns it. It returns an error if this member is not the owner, or if no standby becomes
// level with the log within a term and a quarter.
func (n *Node) Handover(ctx context.Context) error {
	for began := n.o.Clock.Now(); ; {
		level, err := n.successor()
		if err != nil {
			return fmt.Errorf("hand over: %w", err)
		}
		if level {
			break
		}
		err = errors.New("hand over: no standby is level with the log; wait until 'ndrbridge cluster status' shows one whose BEHIND is 0, then repeat it")
		if n.o.Clock.Now()-began >= gone(n.o.Term, n.o.Term) {
			return err
		}
		if !sleep(ctx, n.o.Clock, n.o.step()) {
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
		n.askOnce(ctx)
	}
	n.mu.Lock()
	n.yields = n.o.Clock.Now() + 2*gone(n.o.Term, n.o.Term)
	if n.stop != nil {
		n.stop()
	}
	n.mu.Unlock()
	for {
		if _, self, _, ok := n.Owner(); ok && !self {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.yields = 0
			return nil
		}
		if !sleep(ctx, n.o.Clock, n.o.tick()) {
			return fmt.Errorf("hand over: no other member owns the log yet: %w", context.Cause(ctx))
		}
	}
}

// successor reports whether a standby was level with the log when it was asked. It returns an error
// if this member does not own the log.
func (n *Node) successor() (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ownership == nil {
		return false, errors.New("this member does not own the log; ask the owner")
	}
	return slices.ContainsFunc(n.peers, func(p Report) bool {
		return p.Instance != n.instance && p.State == string(stateFollowing) && p.CaughtUp && p.Error == ""
	}), nil
}

// recovery is an operator's request to continue the log from this member's copy.
type recovery struct {
	ctx  context.Context // once it is done, the request need not be carried out
	done chan error      // has space for the result
}

// Recover begins the next generation of the log with this member's copy, even if the log has
// messages that the copy lacks, and returns when that is done. It returns an error if a member owns
// the log, or one that can be reached has more of it. It takes a little longer than a term and a quarter.
func (n *Node) Recover(ctx context.Context) error {
	request := &recovery{ctx: ctx, done: make(chan error, 1)}
	err := n.accept(request)
	if err == nil {
		select {
		case err = <-request.done:
		case <-ctx.Done():
			err = fmt.Errorf("see the log output of member %s for the result: %w", n.o.Member, context.Cause(ctx))
		}
	}
	if err != nil {
		return fmt.Errorf("recover the log: %w", err)
	}
	return nil
}

// accept stores a request for Run. It returns an error if there is one already or a member owns
// the log.
func (n *Node) accept(request *recovery) error {
	if owner, _, _, ok := n.Owner(); ok {
		return fmt.Errorf("member %s owns it, so that there is nothing to recover; if that one cannot continue, stop it first", owner.Member)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.recovery != nil {
		return errors.New("it is being recovered already")
	}
	n.recovery = request
	return nil
}

// requested returns the request to recover the log; nil: there is none. It drops one whose
// client has left, and is not called while one is carried out.
func (n *Node) requested() *recovery {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.recovery != nil && n.recovery.ctx.Err() != nil {
		n.recovery = nil
	}
	return n.recovery
}

// recovering carries a request out.
func (n *Node) recovering(request *recovery) step {
	return func(ctx context.Context) step {
		waiting, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(request.ctx, func() { cancel(context.Cause(request.ctx)) })()
		err := n.recover(waiting)
		n.mu.Lock()
		n.recovery = nil
		if err == nil {
			n.problem = problem{}
		}
		n.mu.Unlock()
		request.done <- err
		if err != nil {
			n.o.Log.Warn("the log was not continued from this member's copy", "error", err)
		}
		return n.away
	}
}

// furthest returns an error if a member that can be reached has more of the log than this member's
// copy. A slow one may have missed the client's question: it is asked again.
func (n *Node) furthest(ctx context.Context, s Successor) error {
	reports, err := n.o.Peers(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	reports = append(reports, n.peers...)
	n.mu.Unlock()
	for _, r := range reports {
		if r.Cluster == s.Copy.Cluster && cmp.Or(cmp.Compare(r.Generation, s.Copy.Generation), cmp.Compare(r.Offset, s.Offset)) > 0 {
			return fmt.Errorf("member %s has generation %d up to message %d, and this one generation %d up to message %d: continue with that copy, or stop that member",
				r.Member, r.Generation, r.Offset, s.Copy.Generation, s.Offset)
		}
	}
	return nil
}

// recover continues the log from this member's copy, which is restored from it afterwards.
func (n *Node) recover(ctx context.Context) error {
	file, err := n.o.OpenReplica(n.o.Path)
	if err != nil {
		return err
	}
	g := Generations{Name: n.o.Name, Registry: n.o.Registry, Storage: n.o.Storage, Clock: n.o.Clock, Term: n.o.Term}
	s, err := g.Continue(ctx, file, func(s Successor) error { return n.furthest(ctx, s) })
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	n.o.Log.Warn("the log was continued from this member's copy on request", "generation", s.Next, "offset", s.Offset, "end_of_the_log", s.Last)
	return nil
}
