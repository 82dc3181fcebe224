package cluster

import (
	"context"
	"errors"
	"fmt"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
)

const (
	// maxDeferrals is how often a member lets the last owner, or an unknown one, continue a log
	// that lost its end before it does so itself.
	maxDeferrals = 3
	// recoverTerms bounds how long writing a state down may take: in terms.
	recoverTerms = 100
)

// continueLog continues a log that lost its end from the file of this member, which was its
// owner and has all that was in it. lost is the error by which that was found out. The file
// is removed, or set aside if another member was faster, and restored when it is needed.
func (s *shard) continueLog(ctx context.Context, epoch uint64, lost error) error {
	s.log.Error("NATS lost the end of the shard's log; it is continued from the shard's file", "error", lost)
	path := s.o.Path(s.number)
	file, err := s.o.OpenReplica(path)
	if err != nil {
		return errors.Join(lost, err)
	}
	err = errors.Join(s.recover(ctx, file, replicated.RecoverOptions{Options: replicated.Options{Epoch: epoch}}), file.Close())
	switch {
	case err == nil:
		return s.o.files.remove(path) // the snapshot has it
	case errors.Is(err, checkpoint.ErrNotOwner):
		return errors.Join(err, s.setAside(file.At().Offset))
	}
	return errors.Join(lost, err)
}

// logLost continues a log that ends before what a follower's replica has. The last owner has
// the latest state: as long as it lives, or is not known, it should do it.
func (s *shard) logLost(ctx context.Context, r *replica) step {
	status := r.Status()
	if (status.Owner == "" || s.lives(status.Owner)) && s.failedBefore() < maxDeferrals {
		s.fail(s.drop(r))
		return s.away
	}
	err := s.recover(ctx, r.file, replicated.RecoverOptions{Options: replicated.Options{Epoch: status.Epoch}})
	dropErr := s.drop(r)
	switch {
	case err == nil:
		s.log.Error("NATS lost the end of the shard's log, which was continued from this member's file", "offset", status.Applied, "error", dropErr)
		return s.restored(r)
	case errors.Is(err, checkpoint.ErrNotOwner):
		s.log.Error("NATS lost the end of the shard's log, which another member continued; this member's file is restored", "error", err)
		if err := s.keep(r, err); err != nil {
			s.fail(err)
			return s.away
		}
		return s.restored(r)
	case ctx.Err() == nil:
		s.fail(fmt.Errorf("%w; %w", dropErr, err))
	}
	return s.away
}

// recover continues the log from a state. It fills in what all have in common.
func (s *shard) recover(ctx context.Context, state Replica, o replicated.RecoverOptions) error {
	ctx, cancel := context.WithTimeout(ctx, recoverTerms*s.o.Term)
	defer cancel()
	o.Context, o.Owner, o.Clock, o.Term, o.Metrics = ctx, s.instance, s.o.Clock, s.o.Term, s.o.Metrics.ofLog(s.number)
	o.Wall = s.o.Clock.Wall()
	return replicated.Recover(ctx, s.storage.Stream, s.storage.Snapshots, state, o)
}

// lives reports whether an instance is a live member.
func (s *shard) lives(instance string) bool {
	for _, m := range s.members.current().members {
		if m.Instance == instance {
			return true
		}
	}
	return false
}

// failedBefore returns how often this member has failed lately.
func (s *shard) failedBefore() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures
}
