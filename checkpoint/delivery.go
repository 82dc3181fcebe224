package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/transform"
)

// Delivery is what a sink has done with the events after its cursor.
type Delivery struct {
	Sink string
	// Expect is the cursor that the caller believes to be current.
	Expect uint64
	// Cursor is the sequence number of the last event that is acknowledged or
	// among Dead or Parked. Cursor >= Expect.
	Cursor uint64
	Dead   []DeadLetter
	Parked []Parked // without numbers, which the commit assigns in this order
}

// CommitDelivery moves a cursor, and writes the dead letters and the parked events with it. It
// returns ErrFenced if the cursor is not d.Expect, ErrDeadFull or ErrParkedFull if these have
// no space, and an error if d.Cursor is beyond the journal.
func (s *Store) CommitDelivery(ctx context.Context, d Delivery) error {
	err := validateDead(d.Dead)
	if err == nil {
		err = s.do(ctx, change{check: d.check, write: d.write})
	}
	return wrapf(err, "commit the delivery to %s up to %d", d.Sink, d.Cursor)
}

func (d *Delivery) check(r *writeRound) error {
	cursor, err := cursorOf(r.tx.Tx, d.Sink)
	switch {
	case err != nil:
		return err
	case cursor != d.Expect:
		return ErrFenced
	case d.Cursor < d.Expect:
		return fmt.Errorf("a cursor cannot go back from %d", d.Expect)
	case d.Cursor > r.journal.last:
		return fmt.Errorf("the journal ends at %d", r.journal.last)
	}
	if err := r.deadSpace(d.Sink, d.Dead); err != nil {
		return err
	}
	return r.parkedSpace(d.Sink, d.Parked)
}

func (d *Delivery) write(r *writeRound) error {
	r.changed = true
	r.tx.Table(cursorsBucket).Put([]byte(d.Sink), encode(d.Cursor))
	if err := park(r.tx, d.Sink, d.Parked); err != nil {
		return err
	}
	return putDead(r.tx, SinkOwner(d.Sink), d.Dead)
}

// Budget bounds the events that a sink has not committed yet.
type Budget struct {
	Since    time.Time // events recorded before it are too old; zero: no bound
	MaxBytes int64     // of events; 0: no bound
}

// Excess is what a sink has not committed yet beyond a Budget. Nothing is beyond it if
// Cursor equals Expect.
type Excess struct {
	Expect uint64 // the cursor
	Cursor uint64 // the sequence number of the last event beyond the budget
	Events uint64 // includes events that were already trimmed
	Bytes  int64  // of the events that were not trimmed
	// Oldest and Newest bound from above when the first and the last event that were
	// not trimmed were recorded; zero if all were trimmed.
	Oldest, Newest time.Time
}

// Over returns what a sink would have to skip to be within a budget. Its cost does not
// grow with the journal.
func (s *Store) Over(ctx context.Context, sink string, b Budget) (over Excess, err error) {
	err = s.viewJournal(ctx, func(tx *bolt.Tx, j *journal) error {
		cursor, err := cursorOf(tx, sink)
		if err == nil {
			over, err = j.over(cursor, b)
		}
		return err
	})
	return over, wrapf(err, "find what %s would have to skip", sink)
}

func (j *journal) over(cursor uint64, b Budget) (Excess, error) {
	over := Excess{Expect: cursor, Cursor: cursor}
	if !b.Since.IsZero() {
		young, err := j.since(b.Since)
		if err != nil {
			return over, err
		}
		over.Cursor = max(over.Cursor, young-1)
	}
	if b.MaxBytes > 0 {
		few, err := j.search(func(m mark) bool { return int64(j.total-m.total) <= b.MaxBytes })
		if err != nil {
			return over, err
		}
		if from, err := j.totalAt(max(cursor, j.first-1)); err != nil {
			return over, err
		} else if int64(j.total-from) > b.MaxBytes {
			over.Cursor = max(over.Cursor, min(few, j.last))
		}
	}
	over.Events = over.Cursor - cursor
	first := max(cursor+1, j.first)
	if over.Cursor < first {
		return over, nil
	}
	oldest, _, err := j.at(first)
	if err != nil {
		return over, err
	}
	newest, _, err := j.at(over.Cursor)
	if err != nil {
		return over, err
	}
	before, err := j.totalAt(first - 1)
	over.Bytes = int64(newest.total - before)
	over.Oldest, over.Newest = time.UnixMilli(j.recordedBy(first, oldest.recorded)), time.UnixMilli(j.recordedBy(over.Cursor, newest.recorded))
	return over, err
}

// Skip is what a sink's lag policy does: it leaves events after the sink's cursor
// undelivered, and reports that by an event.
type Skip struct {
	Sink string
	// Expect is the cursor that the caller believes to be current.
	Expect uint64
	// Cursor is the sequence number of the last skipped event. Events that were
	// already trimmed count as skipped too. Cursor > Expect.
	Cursor uint64
	// Event reports what was skipped. It is appended to the journal for every
	// sink, this one included.
	Event transform.Event
}

// Skip moves the cursor, counts what was skipped, and appends the event, in one
// transaction. It needs no space in the journal. It returns ErrFenced if the cursor is not
// skipped.Expect, and an error if skipped.Cursor is beyond the journal.
func (s *Store) Skip(ctx context.Context, skipped Skip) error {
	if len(skipped.Event.Structured()) == 0 {
		return fmt.Errorf("skip %s up to %d: the event that reports the skip was not made by transform.New", skipped.Sink, skipped.Cursor)
	}
	moved := Delivery{Sink: skipped.Sink, Expect: skipped.Expect, Cursor: skipped.Cursor}
	err := s.do(ctx, change{
		check: func(r *writeRound) error {
			if err := moved.check(r); err != nil {
				return err
			}
			if moved.Cursor == moved.Expect {
				return errors.New("nothing to skip")
			}
			return nil
		},
		write: func(r *writeRound) error {
			if err := moved.write(r); err != nil {
				return err
			}
			c := countsOf(r.tx.Tx, moved.Sink)
			c.skipped += moved.Cursor - moved.Expect
			c.put(r.tx, moved.Sink)
			return r.append([]transform.Event{skipped.Event})
		},
	})
	return wrapf(err, "skip %s up to %d", skipped.Sink, skipped.Cursor)
}
