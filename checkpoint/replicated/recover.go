package replicated

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"ndrbridge/checkpoint"
)

// RecoverOptions configures Recover.
type RecoverOptions struct {
	Options
	Last uint64    // sequence number that the last message of the log must have
	Wall time.Time // time of the snapshot
}

// Recover continues a log from a state, even if the log has messages that the state lacks: it
// writes the state as a snapshot, takes the log, makes the snapshot that of its take, and
// releases the log. Records are then appended behind the take only, which names the snapshot: if
// the process crashes before the pointer is set, the next reader of the take sets it. The offset
// of d does not change: d and all other replicas of the shard have to be deleted and restored.
// Superseded detects replicas that have more than the recovered log.
//
// Only an operator may request a recovery: Recover does not check which of several copies is the
// latest. It may be called again after an error.
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
	if last != o.Last {
		return fmt.Errorf("its last message is %d, not %d: somebody has appended to it meanwhile; nothing was recovered", last, o.Last)
	}
	if id, ok := parseID(parseTrail(d.At().Trail).id); ok {
		o.Epoch = max(o.Epoch, id.epoch) // so that copies of the lost end show that this is later
	}
	recovery := rand.Text()[:10]
	write := func(generation uint64) (Snapshot, error) {
		snapshot, err := writeObject(ctx, snapshots, objectName(generation), d, o.Wall)
		if err != nil {
			return snapshot, errors.Join(err, abandon(ctx, snapshots, snapshot.Object))
		}
		snapshot.Trail = parseTrail(snapshot.Trail).recovered(recovery).String()
		return snapshot, nil
	}
	// What points to the snapshot of an earlier attempt does not stand for this one.
	snapshot, err := write(max(old.Generation, generationOf(endsRecovered(ctx, s, last))) + 1)
	if err != nil {
		return err
	}
	log, err := take(ctx, s, last, o.Options, taken{Format: checkpoint.RecordFormat, Layout: checkpoint.Layout, Recovered: &snapshot})
	if err != nil {
		return err // if the take is stored, the object is needed; else tidy removes it
	}
	for {
		snapshot = snapshot.takenAt(log.Offset(), log.trail.id)
		p, err := pointTo(ctx, snapshots, snapshot)
		if err == nil {
			err = tidy(ctx, s, snapshots, p, snapshot.Offset)
			return errors.Join(err, log.Release(ctx))
		}
		if !errors.Is(err, ErrPointerMoved) {
			return err
		}
		if snapshot, err = write(p.Generation + 1); err != nil {
			return err
		}
	}
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

// completeTimeout bounds how long a follower tries to point to the snapshot of a recovery.
const completeTimeout = 10 * time.Second

// takenAt returns the snapshot of a state as that of the take which continues the log from it.
func (s Snapshot) takenAt(seq uint64, id string) Snapshot {
	s.Offset, s.Trail = seq, parseTrail(s.Trail).at(id).String()
	return s
}

// complete points to the snapshot from which a take continued the log, unless whoever took it
// has, or a later snapshot was made. After an error nobody can restore the state yet.
func complete(ctx context.Context, log Stream, s Snapshots, recovered Snapshot) error {
	fail := func(err error) error {
		return fmt.Errorf("complete the recovery of the log, which message %d began: %w", recovered.Offset, err)
	}
	p, _, err := s.Pointer(ctx)
	if err != nil {
		return fail(err)
	}
	if generationOf(recovered.Object) > p.Generation {
		switch objects, err := s.Objects(ctx); {
		case err != nil:
			return fail(err)
		case slices.Contains(objects, recovered.Object):
			if p, err = pointTo(ctx, s, recovered); err != nil && !errors.Is(err, ErrPointerMoved) {
				return fail(err)
			}
		}
	}
	if p.Last.Object == recovered.Object || p.Previous.Object == recovered.Object {
		return nil
	}
	if p.Last.Offset >= recovered.Offset {
		switch m, err := log.Get(ctx, p.Last.Offset); {
		case err == nil && m.ID == parseTrail(p.Last.Trail).id:
			return nil // a snapshot behind it
		case err != nil && !errors.Is(err, ErrNoMessage):
			return fail(err)
		}
	}
	return fail(fmt.Errorf("its snapshot %s is not there; decide with 'ndrbridge cluster recover' from which copy the log is continued", recovered.Object))
}

// endsRecovered returns the snapshot's object if the last message of a log is the take of a
// recovery, and an empty string otherwise or if the message cannot be read.
func endsRecovered(ctx context.Context, log Stream, last uint64) (object string) {
	m, err := log.Get(ctx, last)
	var t taken
	if err != nil || m.Kind != KindTake || json.Unmarshal(m.Data, &t) != nil || t.Recovered == nil {
		return ""
	}
	return t.Recovered.Object
}
