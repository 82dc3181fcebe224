package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/lease"
)

// ownership is what the owner of a shard has.
type ownership struct {
	log         *replicated.Log
	lease       *lease.Lease
	abandon     context.CancelFunc                     // ends appends that wait for the servers
	snapshotter atomic.Pointer[replicated.Snapshotter] // nil: none runs
}

// end gives up the lease, and what is still being appended.
func (w *ownership) end() {
	w.lease.End()
	w.abandon()
}

// noteAppended lets the snapshotter, if one runs, know of a record of so many bytes that was
// appended, or of a renewal, and of followers that need a snapshot.
func (s *shard) noteAppended(w *ownership, bytes int) {
	n := w.snapshotter.Load()
	if n == nil {
		return
	}
	n.Need(s.members.current().needs(s.number))
	if bytes > 0 { // the state's offset is that of the last record
		n.Note(w.log.Offset(), bytes)
	}
}

// keepSnapshots is Ownership.Snapshots.
func (s *shard) keepSnapshots(ctx context.Context, w *ownership, state replicated.Dumper) {
	n := replicated.NewSnapshotter(s.storage.Stream, s.storage.Snapshots, state, s.snapshotterOptions(true))
	n.Note(w.log.Offset(), 0) // of the take, which the state has
	w.snapshotter.Store(n)
	defer w.snapshotter.Store(nil)
	n.Run(ctx)
}

// refusal is how often in succession the shard could not be taken, although nobody else took
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
func (s *shard) taking(r *replica, f replicated.FollowerStatus) step {
	return func(ctx context.Context) step {
		s.enter(stateTaking)
		appends, abandon := context.WithCancel(context.WithoutCancel(ctx))
		w := &ownership{lease: lease.New(s.o.Term, s.o.Clock), abandon: abandon}
		bounded, cancel := context.WithTimeout(ctx, s.o.Term)
		defer cancel()
		// If the servers lost the end of the log, numbers are used again, and say nothing: the
		// replica must find out.
		if last, err := s.storage.Stream.Last(bounded); err != nil || last < f.Seen {
			w.end()
			sleep(ctx, s.o.Clock, s.o.step(), nil)
			return s.following(r)
		}
		metrics := s.o.Metrics.ofLog(s.number)
		appended := metrics.Appended
		metrics.Appended = func(took time.Duration, bytes int) {
			appended(took, bytes)
			s.noteAppended(w, bytes)
		}
		s.attempts++
		log, err := replicated.Take(bounded, s.storage.Stream, f.Seen, replicated.Options{
			Context: appends, Owner: s.instance, Attempt: s.attempts, Epoch: f.Epoch, Trail: f.Trail,
			Lease: w.lease, Clock: s.o.Clock, Term: s.o.Term, Metrics: metrics,
		})
		if err != nil {
			w.end()
			if errors.Is(err, checkpoint.ErrNotOwner) {
				s.refused = refusal{}
				sleep(ctx, s.o.Clock, s.o.tick(), nil) // not again at once, whatever is wrong
				return s.following(r)
			}
			if errors.Is(err, replicated.ErrLogLost) {
				s.stopTaking(errors.Join(err, s.drop(r)))
				return s.away
			}
			if s.refused.note(err) && ctx.Err() == nil {
				s.log.Warn("the shard could not be taken; following it, and retrying", "error", err)
			}
			sleep(ctx, s.o.Clock, time.Duration(s.refused.times)*s.o.step(), nil)
			return s.following(r)
		}
		s.refused = refusal{}
		w.log = log
		err = r.CatchUp(bounded, log.Offset())
		if closeErr := s.drop(r); err == nil {
			err = closeErr
		}
		if err != nil {
			s.release(ctx, w)
			if ctx.Err() == nil {
				s.fail(fmt.Errorf("bring the shard's file to the end of its log: %w", err))
			}
			return s.away
		}
		s.o.Metrics.tookOver(s.number)
		s.log.Info("this member owns the shard", "offset", log.Offset(), "owner_before", f.Owner)
		return s.owning(w)
	}
}

// owning runs what the shard is for, until it has to stop or its state fails.
func (s *shard) owning(w *ownership) step {
	return func(ctx context.Context) step {
		running, stop := context.WithCancel(ctx)
		defer stop()
		s.mu.Lock()
		s.ownership, s.stop = w, stop
		request := s.recovery // that arrived during the take
		s.recovery = nil
		s.mu.Unlock()
		if request != nil {
			request.done <- ownedBy(s.o.Member)
		}
		s.enter(stateOwning)

		ended, end := context.WithCancel(context.WithoutCancel(ctx))
		var stopping sync.WaitGroup
		stopping.Go(func() {
			select {
			case <-ended.Done():
				return
			case <-running.Done():
			}
			s.enter(stateReleasing)
			// Without a lease the servers have not answered for a term.
			for began := s.o.Clock.Now(); w.lease.Left() > 0 && s.o.Clock.Now()-began < s.o.StopTimeout; {
				if !sleep(ended, s.o.Clock, s.o.tick(), nil) {
					return
				}
			}
			w.abandon()
		})
		err := s.o.Own(running, Ownership{
			Shard: s.number, Log: w.log, Renew: s.o.Term / 3, Lease: w.lease,
			Snapshots: func(ctx context.Context, state replicated.Dumper) { s.keepSnapshots(ctx, w, state) },
		})
		stopped := running.Err() != nil // not by itself
		end()
		stopping.Wait()

		released := false
		if err == nil {
			released = s.release(ctx, w)
		} else {
			w.end() // the state may still be appending: nothing more can be
		}
		s.mu.Lock()
		s.ownership, s.stop = nil, nil
		s.mu.Unlock()
		switch {
		case err == nil && stopped && released:
			s.log.Info("the shard was released, and the next member takes it")
		case err == nil:
		case errors.Is(err, checkpoint.ErrNotOwner):
			s.o.Metrics.lost(s.number)
			s.log.Warn("another member took the shard; following it", "error", err)
		case stopped:
			s.log.Warn("the shard did not stop cleanly; the next member waits until the lease is over", "error", err)
		case errors.Is(err, replicated.ErrLogLost):
			s.stopTaking(err)
		default:
			s.fail(err)
		}
		return s.away
	}
}

// release ends the ownership so that another member can take the shard at once. It reports
// whether the log was released.
func (s *shard) release(ctx context.Context, w *ownership) bool {
	s.enter(stateReleasing)
	w.lease.End() // before anybody can take it
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Term)
	defer cancel()
	err := w.log.Release(bounded)
	if err != nil {
		s.log.Warn("the shard was stopped, but not released; the next member waits until the lease is over", "error", err)
	}
	w.abandon()
	return err == nil
}

// handOver has the shard stopped cleanly and released, if this member owns it.
func (s *shard) handOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
}

// owned reports whether this member owns the shard.
func (s *shard) owned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownership != nil
}

// setYields makes this member take the shard only if nobody else can.
func (s *shard) setYields() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yields = true
}
