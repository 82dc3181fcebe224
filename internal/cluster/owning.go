package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/lease"
)

// ownership is what the owner has.
type ownership struct {
	Storage
	identity    replicated.Identity
	log         *replicated.Log
	lease       *lease.Lease
	abandon     context.CancelFunc                     // ends appends that wait for the servers
	snapshotter atomic.Pointer[replicated.Snapshotter] // nil: none runs
	refused     atomic.Pointer[string]                 // why NATS refuses what is appended; nil: it does not
}

// end gives up the lease, and what is still being appended.
func (w *ownership) end() {
	w.lease.End()
	w.abandon()
}

// notReady returns why an owner without a lease is not ready.
func (w *ownership) notReady() string {
	reason := "its lease is over: NATS does not store its records"
	if why := w.refused.Load(); why != nil {
		reason += ": " + *why
	}
	return reason
}

// noteResent logs why NATS refuses what the owner appends, each reason once. Without a leader,
// which a full server does not want to be, it does not answer: that leaves the reason before.
func (n *Node) noteResent(w *ownership, why error) {
	if _, refused := errors.AsType[*jetstream.APIError](why); !refused {
		return
	}
	text := why.Error() // its secrets are removed
	if before := w.refused.Swap(&text); before == nil || *before != text {
		n.o.Log.Warn("NATS refuses what this member appends to the log; it is sent again", "error", text)
	}
}

// noteAppended lets the snapshotter, if one runs, know of a record of so many bytes that was
// appended, or of a renewal.
func (w *ownership) noteAppended(bytes int) {
	w.refused.Store(nil)
	if s := w.snapshotter.Load(); s != nil && bytes > 0 { // the state's offset is that of the last record
		s.Note(w.log.Offset(), bytes)
	}
}

// keepSnapshots is Ownership.Snapshots.
func (n *Node) keepSnapshots(ctx context.Context, w *ownership, state replicated.Dumper) {
	s := replicated.NewSnapshotter(w.Stream, w.Snapshots, state, n.snapshotterOptions(1))
	s.Note(w.log.Offset(), 0) // of the take, which the state has
	w.snapshotter.Store(s)
	defer w.snapshotter.Store(nil)
	s.Run(ctx)
}

// refusal is how often in succession the log could not be taken, although nobody else took
// it, and why it could not the last time.
type refusal struct {
	times int // maxRefusals at most
	cause string
}

// maxRefusals bounds the pause before the next attempt: to two terms.
const maxRefusals = 8

// note counts a refusal, and reports whether its cause is another than before.
func (r *refusal) note(err error) bool {
	changed := err.Error() != r.cause
	r.times, r.cause = min(r.times+1, maxRefusals), err.Error()
	return changed
}

// taking tries to become the owner, and then brings the replica to where that happened in
// the log: what earlier owners appended is final then, and in the replica.
func (n *Node) taking(r *replica, f replicated.FollowerStatus) step {
	return func(ctx context.Context) step {
		n.enter(stateTaking)
		bounded, cancel := context.WithTimeout(ctx, n.o.Term)
		defer cancel()
		w, err := n.take(bounded, r, f)
		switch {
		case err == nil:
		case errors.Is(err, checkpoint.ErrNotOwner):
			n.refused = refusal{}
			sleep(ctx, n.o.Clock, n.o.tick()) // not again at once, whatever is wrong
			return n.following(r)
		case errors.Is(err, replicated.ErrLogLost):
			n.stopTaking(errors.Join(err, n.drop(r)))
			return n.away
		default:
			if n.refused.note(err) && ctx.Err() == nil {
				n.o.Log.Warn("the log could not be taken; following it, and retrying", "error", err)
			}
			sleep(ctx, n.o.Clock, time.Duration(n.refused.times)*n.o.step())
			return n.following(r)
		}
		n.refused = refusal{}
		err = r.CatchUp(bounded, w.log.Offset())
		if closeErr := n.drop(r); err == nil {
			err = closeErr
		}
		if err != nil {
			n.release(ctx, w)
			if ctx.Err() == nil {
				n.fail(fmt.Errorf("bring the copy of the state to the end of the log: %w", err))
			}
			return n.away
		}
		n.o.Metrics.takeovers.Inc()
		n.o.Log.Info("this member owns the log", "offset", w.log.Offset(), "owner_before", f.Owner)
		return n.owning(w)
	}
}

// take appends this member's take of the log. The errors are those of replicated.Take.
func (n *Node) take(ctx context.Context, r *replica, f replicated.FollowerStatus) (*ownership, error) {
	// If the servers lost the end of the log, numbers are used again, and say nothing: the
	// replica must find out.
	last, err := r.Stream.Last(ctx)
	if err == nil && last < f.Seen {
		err = fmt.Errorf("its last message is %d, and %d was read", last, f.Seen)
	}
	if err != nil {
		return nil, err
	}
	appends, abandon := context.WithCancel(context.WithoutCancel(ctx))
	w := &ownership{Storage: r.Storage, identity: r.identity, lease: lease.New(n.o.Term, n.o.Clock), abandon: abandon}
	n.attempts++
	w.log, err = replicated.Take(ctx, r.Stream, f.Seen, replicated.Options{
		Context: appends, Owner: n.instance, Attempt: n.attempts, Epoch: f.Epoch, Trail: f.Trail, Describe: n.describe,
		Lease: w.lease, Clock: n.o.Clock, Term: n.o.Term,
		Metrics: n.o.Metrics.ofLog(w.noteAppended, func(why error) { n.noteResent(w, why) }),
	})
	if err != nil {
		w.end()
		return nil, err
	}
	return w, nil
}

// owning does the work of the owner, until it has to stop or its state fails.
func (n *Node) owning(w *ownership) step {
	return func(ctx context.Context) step {
		running, stop := context.WithCancel(ctx)
		defer stop()
		n.mu.Lock()
		n.ownership, n.stop = w, stop
		request := n.recovery // that arrived during the take
		n.recovery = nil
		n.mu.Unlock()
		if request != nil {
			request.done <- errors.New("this member has just taken it, so that there is nothing to recover")
		}
		n.enter(stateOwning)

		ended, end := context.WithCancel(context.WithoutCancel(ctx))
		var stopping sync.WaitGroup
		stopping.Go(func() {
			select {
			case <-ended.Done():
				return
			case <-running.Done():
			}
			n.enter(stateReleasing)
			// Without a lease the servers have not answered for a term.
			for began := n.o.Clock.Now(); w.lease.Left() > 0 && n.o.Clock.Now()-began < n.o.StopTimeout; {
				if !sleep(ended, n.o.Clock, n.o.tick()) {
					return
				}
			}
			w.abandon()
		})
		owned := Ownership{
			Log: w.log, Renew: n.o.Term / 3, Lease: w.lease,
			Snapshots: func(ctx context.Context, state replicated.Dumper) { n.keepSnapshots(ctx, w, state) },
		}
		if n.o.Archive.Folder != "" {
			owned.Archives = n.keepArchives
		}
		err := n.o.Own(running, owned)
		stopped := running.Err() != nil // not by itself
		end()
		stopping.Wait()

		released := false
		if err == nil {
			released = n.release(ctx, w)
		} else {
			w.end() // the state may still be appending: nothing more can be
		}
		n.mu.Lock()
		n.ownership, n.stop = nil, nil
		n.mu.Unlock()
		n.owned(err, stopped, released)
		return n.away
	}
}

// owned logs and counts the end of the ownership: Own returned err, stopped is whether it was
// asked to, and released whether the log was released.
func (n *Node) owned(err error, stopped, released bool) {
	switch {
	case err == nil && stopped && released:
		n.o.Log.Info("the log was released, and a standby takes it")
	case err == nil:
	case errors.Is(err, checkpoint.ErrNotOwner):
		n.o.Metrics.fenced.Inc()
		n.o.Log.Warn("another member took the log; following it", "error", err)
	case stopped:
		n.o.Log.Warn("the owner did not stop cleanly; the next one waits until the lease is over", "error", err)
	case errors.Is(err, replicated.ErrLogLost):
		n.stopTaking(err)
	default:
		n.fail(err)
	}
}

// release ends the ownership so that another member can take the log at once. It reports
// whether the log was released.
func (n *Node) release(ctx context.Context, w *ownership) bool {
	n.enter(stateReleasing)
	w.lease.End() // before anybody can take it
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.o.Term)
	defer cancel()
	err := w.log.Release(bounded)
	if err != nil {
		n.o.Log.Warn("the owner stopped, but the log was not released; the next one waits until the lease is over", "error", err)
	}
	w.abandon()
	return err == nil
}
