package replicated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// completeTimeout bounds how long a follower tries to point to the snapshot of a recovery.
const completeTimeout = 10 * time.Second

// recoveredError is an ErrDiverged: the log leads on from a snapshot.
type recoveredError struct{ snapshot Snapshot }

func (e *recoveredError) Error() string {
	return fmt.Sprintf("%v: message %d continued it from a snapshot, after its end was lost", ErrDiverged, e.snapshot.Offset)
}

func (e *recoveredError) Unwrap() error { return ErrDiverged }

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
