package replicated

import (
	"context"
	"errors"
	"fmt"
)

// verify waits until the log shows that it has, at the replica's offset, the message that the
// replica has, and reads whose it is. Until then nothing is polled: the follower is not quiet.
func (f *Follower) verify(ctx context.Context, r *reader) error {
	at := f.replica.At()
	if at.Offset == 0 {
		return nil
	}
	for absent := 0; ; {
		last, m, err := f.get(ctx, at.Offset)
		switch id := parseTrail(at.Trail).id; {
		case err == nil && id != "" && m.ID != id:
			return fmt.Errorf("%w: message %d is %.100q, not %q", ErrLogLost, at.Offset, m.ID, id)
		case err == nil:
			f.learn(r, m)
			return nil
		case !errors.Is(err, ErrNoMessage): // most servers may have yet to start
		case last >= at.Offset:
			if absent++; absent >= suspicionTimes {
				if err := f.gone(ctx, at.Offset); err != nil {
					return err
				}
			}
		case f.short.lasts(true, f.o.Clock.Now()):
			return fmt.Errorf("%w: its last message is %d, the replica has %d", ErrLogLost, last, at.Offset)
		}
		pause(ctx, f.o.PollEvery)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// gone returns why the log does not have a message that it had: ErrPurged, or it lost it; nil:
// the servers did not answer in time.
func (f *Follower) gone(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*f.o.PollEvery)
	defer cancel()
	err := f.stream.Follow(ctx, seq, func(next uint64, _ Message) error {
		return fmt.Errorf("it was lost, and the next one is message %d", next)
	})
	if ctx.Err() != nil && !errors.Is(err, ErrPurged) {
		return nil
	}
	return fmt.Errorf("%w: the log does not have message %d any more: %w", ErrDiverged, seq, err)
}

// get reads a message, and the sequence number of the last one if there is no such message.
func (f *Follower) get(ctx context.Context, seq uint64) (last uint64, m Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.o.PollEvery)
	defer cancel()
	m, err = f.stream.Get(ctx, seq)
	if errors.Is(err, ErrNoMessage) {
		var failed error
		if last, failed = f.stream.Last(ctx); failed != nil {
			err = failed
		}
	}
	return last, m, err
}

// learn notes whose the message is that the replica has.
func (f *Follower) learn(r *reader, m Message) {
	r.last = m.ID
	id, ok := parseID(m.ID)
	if ok && id.part == id.parts {
		r.owner, r.epoch, r.term = id.owner, id.epoch, m.Term
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trail = f.trail.at(m.ID)
	f.setOwner(r)
	f.status.Released = ok && m.Kind == KindRelease
	f.short = suspicion{}
}
