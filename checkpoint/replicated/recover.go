package replicated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ndrbridge/checkpoint"
)

// RecoverOptions configures Recover.
type RecoverOptions struct {
	Options
	// Force recovers the log from this state even if others wrote to it since: their records
	// are lost. It is for an operator's command, and fails unless message Last is still the
	// last one of the log.
	Force bool
	Last  uint64
	Wall  time.Time // the time that the snapshot has
}

// Recover continues a log that lost its end (ErrLogLost) from a state that has it: it writes
// the state as a snapshot, takes the log, makes the snapshot that of its take, and releases
// the log again. So nothing is appended to what is left but behind that snapshot, which the
// take names: if its caller crashes in between, whoever reads the take points to it. d's offset
// does not change: like every other replica of the shard, it has to be deleted and restored.
//
// checkpoint.ErrNotOwner: an owner that the state does not know of wrote to the log since.
// The replica has to be set aside and restored. ErrWritersUnknown: the state does not know
// whether that is so, and must be kept. After any other error, Recover may be called again,
// with the same Options.Owner.
func Recover(ctx context.Context, s Stream, snapshots Snapshots, d Replica, o RecoverOptions) error {
	if err := recoverLog(ctx, s, snapshots, d, o); err != nil {
		return fmt.Errorf("recover the log: %w", err)
	}
	return nil
}

func recoverLog(ctx context.Context, s Stream, snapshots Snapshots, d Replica, o RecoverOptions) error {
	old, _, err := snapshots.Pointer(ctx)
	if err != nil {
		return err
	}
	last, err := s.Last(ctx)
	if err != nil {
		return err
	}
	if o.Force && last != o.Last {
		return fmt.Errorf("its last message is %d, not %d: somebody has appended to it meanwhile; nothing was recovered", last, o.Last)
	}
	if id, ok := parseID(parseTrail(d.At().Trail).id); ok {
		o.Epoch = max(o.Epoch, id.epoch) // so that copies of the lost end show that this is later
	}
	earlier, taker, err := endsRecovered(ctx, s, last)
	if err == nil && earlier.Object != "" && taker != o.Owner && !o.Force {
		if err = complete(ctx, s, snapshots, earlier); err == nil {
			err = fmt.Errorf("%w: %s has continued it with message %d", checkpoint.ErrNotOwner, taker, last)
		}
	} else if err == nil {
		err = o.allowed(ctx, s, last, d.At())
	}
	if err != nil && !o.Force {
		return err
	}
	// What points to the snapshot of an earlier attempt does not stand for this one.
	generation := max(old.Generation, generationOf(earlier.Object)) + 1
	snapshot, err := writeObject(ctx, snapshots, objectName(generation), d, o.Wall)
	if err != nil {
		return errors.Join(err, abandon(ctx, snapshots, snapshot.Object))
	}
	log, err := take(ctx, s, last, o.Options, taken{Format: checkpoint.RecordFormat, Layout: checkpoint.Layout, Recovered: &snapshot})
	if err != nil {
		return undecided(err) // if the take is stored, the object is needed; else tidy removes it
	}
	for {
		snapshot = snapshot.takenAt(log.Offset(), log.trail.id)
		p, err := pointTo(ctx, snapshots, snapshot)
		if err == nil {
			err = tidy(ctx, s, snapshots, p, snapshot.Offset)
			return errors.Join(err, undecided(log.Release(ctx)))
		}
		if !errors.Is(err, ErrPointerMoved) {
			return err
		}
		snapshot, err = writeObject(ctx, snapshots, objectName(p.Generation+1), d, o.Wall)
		if err != nil {
			return errors.Join(err, abandon(ctx, snapshots, snapshot.Object))
		}
	}
}

// undecided hides ErrNotOwner in err: only allowed may return it, because callers then drop the
// state.
func undecided(err error) error {
	if errors.Is(err, checkpoint.ErrNotOwner) {
		return errors.New(err.Error())
	}
	return err
}

// allowed returns an error if the log did not lose its end, or others wrote to it since.
func (o RecoverOptions) allowed(ctx context.Context, s Stream, last uint64, state checkpoint.Point) error {
	if last == 0 && state.Offset > 0 {
		return nil
	}
	m, err := s.Get(ctx, last)
	if err != nil {
		return fmt.Errorf("find out who wrote last: %w", err)
	}
	id, ok := parseID(m.ID)
	known := trailOf(state)
	switch {
	case ok && id.owner == o.Owner: // an earlier attempt
		return nil
	case last >= state.Offset:
		return fmt.Errorf("it ends with message %d, not before %d, which the state has", last, state.Offset)
	case !ok || !known.complete() && !known.before(id) && !slices.Contains(known.owners, id.owner):
		return fmt.Errorf("%w: message %d is %.100q", ErrWritersUnknown, last, m.ID)
	case known.before(id) || !slices.Contains(known.owners, id.owner):
		return fmt.Errorf("%w: message %d is %.100q, of nobody that the state knows, or of later", checkpoint.ErrNotOwner, last, m.ID)
	}
	return nil
}

// pointTo makes a snapshot the only one. It does not give up before ctx ends: the log is
// taken, and without the pointer it continues where its end was lost. ErrPointerMoved: p is
// not the pointer for whose next generation the object was named, so that the object may have
// been removed by whoever wrote p.
func pointTo(ctx context.Context, s Snapshots, only Snapshot) (p Pointer, err error) {
	for {
		old, revision, err := s.Pointer(ctx)
		if err == nil {
			if old.Last.Object == only.Object || old.Previous.Object == only.Object {
				return old, nil // an answer was lost
			}
			if old.Generation >= generationOf(only.Object) {
				return old, fmt.Errorf("point to the snapshot %s: %w", only.Object, ErrPointerMoved)
			}
			p = Pointer{Generation: old.Generation + 1, Last: only}
			if err = s.SetPointer(ctx, p, revision); err == nil {
				return p, nil
			}
		}
		if ctx.Err() != nil {
			return p, fmt.Errorf("point to the snapshot %s: %w", only.Object, err)
		}
		pause(ctx, time.Second)
	}
}
