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
	"ndrbridge/cluster/lease"
)

// tenure is what the owner of a shard has.
type tenure struct {
	log     *ownLog
	lease   *lease.Lease
	abandon context.CancelFunc // ends appends that wait for the servers
}

// end gives up the lease, and what is still being appended.
func (t *tenure) end() {
	t.lease.End()
	t.abandon()
}

// ownLog is a log whose end can be read while it is appended to.
type ownLog struct {
	*replicated.Log
	packed int // bytes of the record that was appended last
	end    atomic.Uint64
	shots  atomic.Pointer[replicated.Snapshotter] // nil: none runs
}

func (l *ownLog) Append(record []byte) (uint64, error) {
	offset, err := l.Log.Append(record)
	if err != nil {
		return 0, err
	}
	l.end.Store(offset)
	if shots := l.shots.Load(); shots != nil {
		shots.Note(offset, l.packed)
	}
	return offset, nil
}

// ownerRank makes an owner wait for twice as much log as a follower would, before it makes
// a snapshot itself.
const ownerRank = 4

// keepSnapshots is Ownership.Snapshots.
func (s *shard) keepSnapshots(ctx context.Context, l *ownLog, state replicated.Dumper) {
	if s.storage.Snapshots == nil {
		return
	}
	shots := replicated.NewSnapshotter(s.storage.Stream, s.storage.Snapshots, state, s.snapshotterOptions(ownerRank))
	l.shots.Store(shots)
	defer l.shots.Store(nil)
	shots.Run(ctx)
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
		s.enter(Taking)
		appends, abandon := context.WithCancel(context.WithoutCancel(ctx))
		t := &tenure{lease: lease.New(s.o.Term, s.o.Clock), abandon: abandon}
		bounded, cancel := context.WithTimeout(ctx, s.o.Term)
		defer cancel()
		// If the servers lost the end of the log, numbers are used again, and say nothing: the
		// replica must find out.
		if last, err := s.storage.Stream.Last(bounded); err != nil || last < f.Seen {
			t.end()
			sleep(ctx, s.o.Clock, s.o.step(), nil)
			return s.following(r)
		}
		metrics, own := s.o.Metrics.ofLog(s.number), &ownLog{}
		appended := metrics.Appended
		metrics.Appended = func(took time.Duration, bytes int) {
			appended(took, bytes)
			own.packed = bytes
		}
		s.attempts++
		log, err := replicated.Take(bounded, s.storage.Stream, f.Seen, replicated.Options{
			Context: appends, Owner: s.instance, Attempt: s.attempts, Epoch: f.Epoch, LastID: f.SeenID,
			Lease: t.lease, Clock: s.o.Clock, Term: s.o.Term, Metrics: metrics,
		})
		if err != nil {
			t.end()
			if errors.Is(err, checkpoint.ErrNotOwner) {
				s.refused = refusal{}
				sleep(ctx, s.o.Clock, s.o.tick(), nil) // not again at once, whatever is wrong
				return s.following(r)
			}
			if errors.Is(err, replicated.ErrDiverged) {
				return s.unfit(r, errors.Join(err, s.drop(r)))
			}
			if s.refused.note(err) && ctx.Err() == nil {
				s.log.Warn("the shard could not be taken; following it, and retrying", "error", err)
			}
			sleep(ctx, s.o.Clock, time.Duration(s.refused.times)*s.o.step(), nil)
			return s.following(r)
		}
		s.refused = refusal{}
		own.Log, t.log = log, own
		own.end.Store(log.Offset())
		err = r.CatchUp(bounded, log.Offset())
		if closeErr := s.drop(r); err == nil {
			err = closeErr
		}
		if err != nil {
			s.release(ctx, t)
			if ctx.Err() == nil {
				s.fail(fmt.Errorf("bring the shard's file to the end of its log: %w", err))
			}
			return s.away
		}
		s.o.Metrics.tookOver(s.number)
		s.log.Info("this member owns the shard", "offset", log.Offset(), "owner_before", f.Owner)
		return s.owning(t)
	}
}

// owning runs what the shard is for, until it is to stop or its state fails.
func (s *shard) owning(t *tenure) step {
	return func(ctx context.Context) step {
		running, order := context.WithCancel(ctx)
		defer order()
		s.mu.Lock()
		s.tenure, s.order = t, order
		s.mu.Unlock()
		s.enter(Owning)

		ended, end := context.WithCancel(context.WithoutCancel(ctx))
		var stopping sync.WaitGroup
		stopping.Go(func() {
			select {
			case <-ended.Done():
				return
			case <-running.Done():
			}
			s.enter(Releasing)
			// Without a lease the servers have not answered for a term.
			for began := s.o.Clock.Now(); t.lease.Left() > 0 && s.o.Clock.Now()-began < s.o.StopTimeout; {
				if !sleep(ended, s.o.Clock, s.o.tick(), nil) {
					return
				}
			}
			t.abandon()
		})
		err := s.o.Own(running, Ownership{
			Shard: s.number, Path: s.o.Path(s.number), Log: t.log, Renew: s.o.Term / 3, Lease: t.lease,
			Snapshots: func(ctx context.Context, state replicated.Dumper) { s.keepSnapshots(ctx, t.log, state) },
		})
		ordered := running.Err() != nil
		end()
		stopping.Wait()

		if err == nil {
			s.release(ctx, t)
		} else {
			t.end() // the state may still be appending: nothing more can be
		}
		if errors.Is(err, replicated.ErrLogLost) && !ordered {
			err = s.continueLog(ctx, t.log.Epoch(), err)
		}
		s.mu.Lock()
		s.tenure, s.order = nil, nil
		s.mu.Unlock()
		switch {
		case err == nil && ordered:
			s.log.Info("the shard was handed over")
		case err == nil:
		case errors.Is(err, checkpoint.ErrNotOwner):
			s.o.Metrics.lost(s.number)
			s.log.Warn("another member took the shard; following it", "error", err)
		case ordered:
			s.log.Warn("the shard did not stop in order; the next member waits until the lease is over", "error", err)
		default:
			s.fail(err)
		}
		return s.away
	}
}

// release ends the tenure so that another member can take the shard at once.
func (s *shard) release(ctx context.Context, t *tenure) {
	s.enter(Releasing)
	t.lease.End() // before anybody can take it
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Term)
	defer cancel()
	if err := t.log.Release(bounded); err != nil {
		s.log.Warn("the shard was not released; the next member waits until the lease is over", "error", err)
	}
	t.abandon()
}

// handOver has the shard stopped in order and released, if this member owns it.
func (s *shard) handOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.order != nil {
		s.order()
	}
}

// owned reports whether this member owns the shard.
func (s *shard) owned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tenure != nil
}

// setYields makes this member take the shard only if nobody else can.
func (s *shard) setYields() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yields = true
}
