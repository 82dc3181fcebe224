package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
)

// state is what a member does with a shard. See the package comment.
type state string

// The states.
const (
	stateAway      state = "away"
	stateFollowing state = "following"
	stateTaking    state = "taking"
	stateOwning    state = "owning"
	stateReleasing state = "releasing"
)

// shard is a shard as this member has it. Its run is one goroutine; the other methods are
// safe for concurrent use.
type shard struct {
	o        *Options
	members  *members
	instance string // the owner that this member is
	number   int
	storage  Storage
	log      *slog.Logger
	attempts uint64  // to take the shard; of run alone
	refused  refusal // as attempts

	mu        sync.Mutex
	state     state
	yields    bool               // an operator had it handed over
	replica   *replica           // following and taking
	ownership *ownership         // owning and releasing
	stop      context.CancelFunc // stops it cleanly; as ownership
	cause     error              // why this member is unable to own the shard; nil: it is able
	lost      error              // the error if the log lacks records of the file or is empty; nil: not known
	ableFrom  time.Duration      // when that is tried again
	needs     uint64             // see report.Needs; as cause
	failures  int                // one after the other
	failedAt  time.Duration      // the last of them
	recovery  *recovery          // that an operator requested; nil: none
}

func newShard(o *Options, m *members, instance string, number int) *shard {
	return &shard{
		o: o, members: m, instance: instance, number: number, storage: o.Storage(number),
		log: o.Log.With("shard", configs.ShardName(number)), state: stateAway,
	}
}

// step does what a state is for and returns that of the next state; nil: the shard was
// stopped.
type step func(ctx context.Context) step

// run goes from state to state until ctx is done.
func (s *shard) run(ctx context.Context) {
	for next := step(s.away); next != nil; {
		next = next(ctx)
	}
	s.enter(stateAway)
}

// enter notes the state, and publishes what it means to the others soon.
func (s *shard) enter(state state) {
	s.mu.Lock()
	changed := s.state != state
	s.state = state
	s.mu.Unlock()
	if changed {
		s.log.Debug("the shard changed its state", "state", state)
		s.members.publishSoon()
	}
}

// away waits until this member should follow the shard.
func (s *shard) away(ctx context.Context) step {
	s.enter(stateAway)
	for {
		if ctx.Err() != nil {
			return nil
		}
		if request := s.requested(); request != nil {
			return s.recovering(request)
		}
		if s.able() && s.members.current().shouldFollow(s.number, false, s.o.Clock.Now(), s.o.step()) {
			return s.follow
		}
		sleep(ctx, s.o.Clock, 3*s.o.tick(), nil)
	}
}

// follow opens the replica, which follows the log from then on.
func (s *shard) follow(ctx context.Context) step {
	s.enter(stateFollowing)
	r, err := openReplica(ctx, s)
	switch {
	case err == nil:
	case errors.Is(err, errForeign):
		s.stopTaking(err)
		return s.away
	default:
		if ctx.Err() == nil {
			s.fail(err)
		}
		return s.away
	}
	return s.following(r)
}

// following follows the log until it is this member's turn to take the shard, or it should no
// longer follow it.
func (s *shard) following(r *replica) step {
	return func(ctx context.Context) step {
		s.mu.Lock()
		s.replica = r
		s.mu.Unlock()
		s.enter(stateFollowing)
		for {
			view, status := s.members.current(), r.Status()
			if status.Quiet > 0 && status.Last > 0 {
				s.fits()
			}
			switch {
			case ctx.Err() != nil:
				s.drop(r)
				return nil
			case s.requested() != nil:
				s.drop(r)
				return s.away
			case r.ended():
				return s.unable(ctx, r)
			case empty(status):
				s.stopTaking(errors.Join(errors.New("the shard's log is empty"), s.drop(r)))
				return s.away
			case s.mayTake(view, status):
				return s.taking(r, status)
			case !view.shouldFollow(s.number, true, s.o.Clock.Now(), s.o.step()):
				s.drop(r)
				return s.away
			}
			sleep(ctx, s.o.Clock, s.o.tick(), nil)
		}
	}
}

// unable handles a replica that can no longer follow. Its file is restored if it does not fit the
// log, because this member was away for long or the machine crashed. If the log lacks records of
// the file, the file is kept until an operator recovers the shard.
func (s *shard) unable(ctx context.Context, r *replica) step {
	lost := errors.Is(r.err, replicated.ErrLogLost) && !s.superseded(ctx, r)
	err := s.drop(r)
	switch {
	case lost:
		s.stopTaking(err)
	case errors.Is(err, replicated.ErrDiverged), errors.Is(err, replicated.ErrLogLost), errors.Is(err, checkpoint.ErrDamaged):
		return s.unfit(r, err)
	default:
		s.fail(err)
	}
	return s.away
}

// superseded reports whether the log has been recovered from another copy than r since.
func (s *shard) superseded(ctx context.Context, r *replica) bool {
	p, _, err := s.storage.Snapshots.Pointer(ctx)
	return err == nil && replicated.Superseded(r.file.At(), p.Last)
}

// stopTaking keeps this member, and all that see its report, from taking the shard, because NATS
// lost data. The file is kept.
func (s *shard) stopTaking(err error) {
	err = fmt.Errorf("no member takes the shard, because NATS lost its log or a part of it: restore the data of NATS, or continue from the copy of a member with 'ndrbridge cluster recover': %w", err)
	s.mu.Lock()
	s.lost = err
	s.mu.Unlock()
	s.fail(err)
}

// fits records that the log has all records of the file.
func (s *shard) fits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = nil
}

// notReady returns the reason why the shard is not ready on this member; empty: it is.
func (s *shard) notReady() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lost != nil:
		return s.lost.Error()
	case s.ownership != nil && s.ownership.lease.Left() == 0:
		return "its lease is over: NATS does not store its records"
	}
	return ""
}

// unfit restores the file of a replica that was dropped, because it does not fit the log; one
// that was just restored, later.
func (s *shard) unfit(r *replica, err error) step {
	s.log.Warn("the shard's file does not fit its log and is restored", "error", err)
	if err := s.keep(r, err); err != nil {
		s.fail(err)
		return s.away
	}
	if !r.fresh {
		return s.restored(r)
	}
	// The log lost a message, or has a wrong one: only a snapshot leads past it.
	s.mu.Lock()
	s.needs = r.Status().Seen + 1
	s.mu.Unlock()
	s.fail(errors.Join(fmt.Errorf("the shard's file was just restored, and does not fit the log; it is restored again when the owner has made a snapshot; without an owner, see 'ndrbridge cluster recover': %w", err), r.remove()))
	return s.away
}

// restored removes the file of a replica that was dropped, so that it is restored.
func (s *shard) restored(r *replica) step {
	if err := r.remove(); err != nil {
		s.fail(err)
		return s.away
	}
	return s.follow
}

// drop closes a replica and returns why it stopped.
func (s *shard) drop(r *replica) error {
	s.mu.Lock()
	s.replica = nil
	s.mu.Unlock()
	return r.close()
}

// mayTake reports whether it is this member's turn to take the shard.
func (s *shard) mayTake(v *view, f replicated.FollowerStatus) bool {
	// A log that ends before another member's file lost its end.
	if !v.claimed || !caughtUp(f) || v.ahead(s.number, f.Last) {
		return false
	}
	n, ok := v.turn(s.number, f.Owner)
	wait := time.Duration(n) * s.o.step()
	if !f.Released {
		wait += s.o.gone(f.Term)
	}
	return ok && f.Quiet > 0 && f.Quiet >= wait
}

// caughtUp reports whether a follower has seen every known message of the log.
func caughtUp(f replicated.FollowerStatus) bool { return f.Seen >= f.Last && f.Last > 0 }

// empty reports whether a log is known to be empty. Init leaves none empty.
func empty(f replicated.FollowerStatus) bool { return f.Last == 0 && f.Quiet > 0 }

// able reports whether this member may own the shard: it did not fail to lately.
func (s *shard) able() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil && s.o.Clock.Now() >= s.ableFrom {
		s.cause, s.needs = nil, 0
		s.members.publishSoon()
	}
	return s.cause == nil
}

const (
	// maxFailures bounds the back-off after failures: 2^6 terms.
	maxFailures = 7
	// newerTerms is the number of terms before another attempt if the log is of a newer version
	// or an operator has to recover it.
	newerTerms = 10
	// forgetTerms is after how many terms without a failure the back-off begins again.
	forgetTerms = 100
)

// fail makes this member unable to own the shard for a while: each time longer, so that
// a broken disk does not have the shard taken again and again.
func (s *shard) fail(err error) {
	s.mu.Lock()
	now := s.o.Clock.Now()
	if now-s.failedAt > forgetTerms*s.o.Term {
		s.failures = 0
	}
	s.failures, s.failedAt = min(s.failures+1, maxFailures), now
	wait := s.o.Term << (s.failures - 1)
	level := slog.LevelWarn
	if s.lost != nil {
		level = slog.LevelError
	}
	if errors.Is(err, checkpoint.ErrNewer) || s.lost != nil {
		wait = newerTerms * s.o.Term
	}
	s.cause, s.ableFrom = err, now+wait
	s.mu.Unlock()
	s.log.Log(context.Background(), level, "this member cannot own the shard; retrying", "in", wait, "error", err)
	s.members.publishSoon()
}

// report returns what this member publishes about the shard.
func (s *shard) report() (r report, yields bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cause != nil:
		r = report{Role: roleUnable, Reason: s.cause.Error(), Needs: s.needs}
	case s.ownership != nil:
		r = report{Role: roleOwner, Offset: s.ownership.log.Offset(), LeaseMS: s.ownership.lease.Left().Milliseconds()}
		if n := s.ownership.snapshotter.Load(); n != nil {
			var last replicated.Snapshot
			last, r.LogBytes = n.Status()
			r.Snapshot = last.Time
		}
	case s.replica != nil:
		f := s.replica.Status()
		r = report{Role: roleFollower, Offset: f.Applied, Behind: behind(f), CaughtUp: caughtUp(f), LogBytes: f.LogBytes, Snapshot: f.Snapshot.Time}
	}
	if s.ownership == nil && s.lost != nil {
		r.Lost = true
	}
	return r, s.yields
}

// behind returns how many messages a follower knows of and has not applied.
func behind(f replicated.FollowerStatus) uint64 {
	if f.Last <= f.Applied {
		return 0
	}
	return f.Last - f.Applied
}
