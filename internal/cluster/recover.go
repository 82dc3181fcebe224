package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/lease"
)

// recovery is an operator's request to continue a shard's log from this member's file.
type recovery struct {
	ctx  context.Context // once it is done, the request need not be carried out
	done chan error      // has space for the result
}

// Recover continues the log of a shard from this member's file, even if the log has messages that
// the file lacks, and returns when that is done. It returns admin.ErrUnknown if the shard or the member
// does not exist, and another error if a member owns the shard.
func (n *Node) Recover(ctx context.Context, what admin.Recovery) error {
	if *what.Shard < 0 || *what.Shard >= len(n.shards) {
		return fmt.Errorf("%w shard %d: the cluster has 00 to %s", admin.ErrUnknown, *what.Shard, configs.ShardName(len(n.shards)-1))
	}
	if what.From != n.o.Member {
		return fmt.Errorf("%w member %q: name a live one, whose copy is to be used", admin.ErrUnknown, what.From)
	}
	s, request := n.shards[*what.Shard], &recovery{ctx: ctx, done: make(chan error, 1)}
	var err error
	if owner := n.members.current().ownedByOther(s.number); owner != "" {
		err = ownedBy(owner)
	} else {
		err = s.accept(request)
	}
	if err != nil {
		return fmt.Errorf("recover shard %s: %w", configs.ShardName(s.number), err)
	}
	select {
	case err = <-request.done:
	case <-ctx.Done():
		err = fmt.Errorf("see the log of member %s for the result: %w", n.o.Member, context.Cause(ctx))
	case <-n.stopping:
		err = errors.New("the member stops; name another one, or start it again")
	}
	if err != nil {
		return fmt.Errorf("recover shard %s: %w", configs.ShardName(s.number), err)
	}
	return nil
}

// ownedBy returns the error for a shard that a member owns.
func ownedBy(member string) error {
	return fmt.Errorf("member %s owns it, so that there is nothing to recover; if that one cannot continue it, stop it first", member)
}

// accept stores a request for run. It returns an error if there is one already or this member
// owns the shard.
func (s *shard) accept(request *recovery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ownership != nil:
		return ownedBy(s.o.Member)
	case s.recovery != nil:
		return errors.New("it is being recovered already")
	}
	s.recovery = request
	return nil
}

// requested returns the request to recover the shard; nil: there is none. It drops one whose
// client has left, and is not called while one is carried out.
func (s *shard) requested() *recovery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recovery != nil && s.recovery.ctx.Err() != nil {
		s.recovery = nil
	}
	return s.recovery
}

// recovering carries a request out.
func (s *shard) recovering(request *recovery) step {
	return func(ctx context.Context) step {
		s.enter(stateAway)
		err := s.recoverFrom(ctx, request)
		s.mu.Lock()
		s.recovery = nil
		if err == nil {
			s.cause, s.lost, s.failures = nil, nil, 0
		}
		s.mu.Unlock()
		request.done <- err
		if err != nil {
			s.log.Warn("the shard was not recovered from this member's file", "error", err)
		}
		return s.away
	}
}

// recoverFrom applies the rest of the log to this member's file, or restores a missing one, and
// continues the log from it, or from the file that was set aside if that one has more.
func (s *shard) recoverFrom(ctx context.Context, request *recovery) error {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(request.ctx, func() { cancel(context.Cause(request.ctx)) })()
	r, err := openReplica(waiting, s)
	if err != nil {
		return err
	}
	last, err := Quiet(waiting, s.storage.Stream, s.o.Clock, s.o.Term)
	for err == nil && !r.ended() && r.Status().Seen < last {
		sleep(waiting, s.o.Clock, s.o.tick(), nil)
		err = context.Cause(waiting)
	}
	r.stop()
	<-r.done
	status := r.Status()
	if err != nil {
		return errors.Join(err, r.file.Close())
	}
	lost, err := s.openLost()
	if err != nil {
		s.log.Warn("the file that was set aside cannot be read; the shard's file is used", "file", s.lostPath(), "error", err)
	}
	used, aside := r.file, lost != nil && lost.At().Offset > r.file.At().Offset
	if aside {
		used = lost
	}
	offset := used.At().Offset
	if offset == 0 {
		err = errors.New("this member has no copy of the shard, and could not make one from NATS; name another member")
	} else {
		err = s.recover(ctx, used, status.Epoch, last)
	}
	if lost != nil {
		err = errors.Join(err, lost.Close())
	}
	if err = errors.Join(err, r.file.Close()); err != nil {
		return err
	}
	s.log.Warn("the shard's log was continued from this member's file on request", "set_aside", aside, "offset", offset, "end", last)
	if !aside {
		return r.remove()
	}
	if r.restorable() {
		return errors.Join(s.o.files.remove(s.lostPath()), r.remove())
	}
	return s.setAside(r.file.At().Offset)
}

// recoverTerms limits the time to write a state, in terms.
const recoverTerms = 100

// recover continues the log, which ends with message last, from a state.
func (s *shard) recover(ctx context.Context, state Replica, epoch, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, recoverTerms*s.o.Term)
	defer cancel()
	return replicated.Recover(ctx, s.storage.Stream, s.storage.Snapshots, state, replicated.RecoverOptions{
		Options: replicated.Options{
			Context: ctx, Owner: s.instance, Epoch: epoch, Clock: s.o.Clock, Term: s.o.Term, Metrics: s.o.Metrics.ofLog(s.number),
		},
		Last: last, Wall: s.o.Clock.Wall(),
	})
}

// Quiet returns the sequence number of the last message of a shard's log. It returns an error if a
// member appends to the log while the last owner's lease may be valid: for the term in its last
// message, or for term if that is longer.
func Quiet(ctx context.Context, log replicated.Stream, clock lease.Clock, term time.Duration) (uint64, error) {
	last, err := log.Last(ctx)
	if err != nil {
		return 0, err
	}
	m, err := log.Get(ctx, last)
	switch {
	case last == 0:
		m.Term = term // nobody has owned it
	case err != nil:
		m.Term = 0 // not known: NATS lost the message
	}
	o := Options{Term: term}
	if !sleep(ctx, clock, o.gone(m.Term), nil) {
		return 0, context.Cause(ctx)
	}
	now, err := log.Last(ctx)
	if err == nil && now != last {
		err = errors.New("a member owns the shard and appends to its log, so that there is nothing to recover")
	}
	return last, err
}
