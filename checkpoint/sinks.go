package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
	"ndrbridge/transform"
)

// Start sets where a sink that the state has never seen begins.
type Start struct {
	Now   bool      // with the first event appended from now on
	Since time.Time // with the first event recorded at or after this; zero: with everything that the journal holds
}

// Configure sets which sinks there are, before any of them reads. A sink that the state
// has never seen gets a cursor at its Start. Only these sinks hold the journal back; the
// cursors of others are kept, and returned by Stats. Before Configure is called, nothing
// is trimmed, and every event in the journal counts as not yet committed.
func (s *Store) Configure(ctx context.Context, sinks map[string]Start) error {
	for sink := range sinks {
		if sink == "" || len(sink) > maxKey {
			return fmt.Errorf("configure sinks: a name of %d bytes", len(sink))
		}
	}
	err := s.do(ctx, change{write: func(r *writeRound) error {
		cursors := r.tx.Table(cursorsBucket)
		r.configured = make(map[string]bool, len(sinks))
		for sink, start := range sinks {
			r.configured[sink] = true
			if cursors.Get([]byte(sink)) != nil {
				continue
			}
			seq, err := start.cursor(&r.journal)
			if err != nil {
				return fmt.Errorf("cursor of %s: %w", sink, err)
			}
			cursors.Put([]byte(sink), encode(seq))
			r.changed = true
		}
		return nil
	}})
	return wrapf(err, "configure sinks")
}

// cursor returns the number of the event before the first one to deliver.
func (s Start) cursor(j *journal) (uint64, error) {
	switch {
	case s.Now:
		return j.last, nil
	case s.Since.IsZero():
		return j.first - 1, nil
	}
	first, err := j.since(s.Since)
	return first - 1, err
}

// Cursor returns the sequence number of the last event that the sink has committed. It
// returns an error if the sink was never configured.
func (s *Store) Cursor(ctx context.Context, sink string) (seq uint64, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		seq, err = cursorOf(tx, sink)
		return err
	})
	return seq, wrapf(err, "cursor of %s", sink)
}

func cursorOf(tx *bolt.Tx, sink string) (uint64, error) {
	value := tx.Bucket(cursorsBucket).Get([]byte(sink))
	if len(value) != 8 {
		return 0, errors.New("the sink was never configured")
	}
	return decode(value)[0], nil
}

// hasCursor returns the check of changes to a sink that was configured once.
func hasCursor(sink string) func(*writeRound) error {
	return func(r *writeRound) error {
		_, err := cursorOf(r.tx.Tx, sink)
		return err
	}
}

// Pause records, across restarts, whether an operator has paused a sink; Stats returns it.
// It has no other effect here. It returns an error if the sink was never configured.
func (s *Store) Pause(ctx context.Context, sink string, paused bool) error {
	key, now := []byte(sink), s.clock.now().UnixMilli()
	err := s.do(ctx, change{check: hasCursor(sink), write: func(r *writeRound) error {
		sinks := r.tx.Table(pausedBucket)
		switch already := sinks.Get(key) != nil; {
		case already == paused:
			return nil
		case paused:
			sinks.Add(key, encode(uint64(now)))
		default:
			sinks.Delete(key)
		}
		r.changed = true
		return nil
	}})
	return wrapf(err, "pause %s", sink)
}

// pausedSince returns when a sink was paused, or the zero time if it is not paused.
func pausedSince(tx *bolt.Tx, sink string) time.Time {
	value := valueOf(tx, pausedBucket, sink)
	if len(value) != 8 {
		return time.Time{}
	}
	return time.UnixMilli(int64(decode(value)[0]))
}

// Forget drops the cursor, the redelivery queue, the parked events and the dead letters of a
// sink. It returns an error if the sink is configured, or never was.
func (s *Store) Forget(ctx context.Context, sink string) error {
	err := s.do(ctx, change{
		check: func(r *writeRound) error {
			if r.configured[sink] {
				return errors.New("the sink is configured; take it out of the configuration first")
			}
			return hasCursor(sink)(r)
		},
		write: func(r *writeRound) error {
			r.changed = true
			forgetSink(r.tx, sink)
			return nil
		},
	})
	return wrapf(err, "forget %s", sink)
}

// part is a value or a bucket of a sink.
type part struct {
	outer *boltfile.Table
	key   []byte
}

func partsOf(tx *boltfile.Tx, sink string) []part {
	name, owner := []byte(sink), []byte(SinkOwner(sink))
	return []part{
		{tx.Table(cursorsBucket), name},
		{tx.Table(deadBucket), owner},
		{tx.Table(deadSizeBucket), owner},
		{tx.Table(requeuedBucket), name},
		{tx.Table(replayedBucket), name},
		{tx.Table(parkedBucket), name},
		{tx.Table(countsBucket), name},
		{tx.Table(pausedBucket), name},
		{tx.Table(knownBucket), memoryName(sink)},
		{tx.Table(forgetBucket), memoryName(sink)},
	}
}

func forgetSink(tx *boltfile.Tx, sink string) {
	for _, p := range partsOf(tx, sink) {
		p.outer.DeleteBucket(p.key)
		p.outer.Delete(p.key)
	}
}

// Rename moves everything that the state holds of a sink to another name, in one
// transaction. It returns an error if either is configured, if from never was, or if the
// state holds anything under the name to. It needs memory for a copy of the sink's dead
// letters, requeued events and parked events.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	if to == "" || len(to) > maxKey {
		return fmt.Errorf("rename %s to %s: a name of %d bytes", from, to, len(to))
	}
	err := s.do(ctx, change{
		check: func(r *writeRound) error {
			for _, sink := range []string{from, to} {
				if r.configured[sink] {
					return fmt.Errorf("the sink %s is configured; take it out of the configuration first", sink)
				}
			}
			for _, p := range partsOf(r.tx, to) {
				if p.outer.Get(p.key) != nil || p.outer.Inside(p.key) != nil {
					return fmt.Errorf("the state already knows a sink %s", to)
				}
			}
			return hasCursor(from)(r)
		},
		write: func(r *writeRound) error {
			r.changed = true
			copies := partsOf(r.tx, to)
			for i, p := range partsOf(r.tx, from) {
				if err := p.copy(copies[i]); err != nil {
					return fmt.Errorf("what belongs to %s: %w", from, err)
				}
			}
			forgetSink(r.tx, from)
			return nil
		},
	})
	return wrapf(err, "rename %s to %s", from, to)
}

// copy copies a part, if it exists.
func (p part) copy(to part) error {
	if value := p.outer.Get(p.key); value != nil {
		to.outer.Add(to.key, bytes.Clone(value))
		return nil
	}
	from := p.outer.Inside(p.key)
	if from == nil {
		return nil
	}
	copied, err := to.outer.Make(to.key)
	if err != nil {
		return err
	}
	if err := copied.SetSequence(from.Sequence()); err != nil {
		return err
	}
	return from.ForEach(func(key, value []byte) error {
		copied.Add(key, bytes.Clone(value))
		return nil
	})
}

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
	return r.checkResults(d.Sink, d.Dead, d.Parked)
}

func (d *Delivery) write(r *writeRound) error {
	r.tx.Table(cursorsBucket).Put([]byte(d.Sink), encode(d.Cursor))
	return r.putResults(d.Sink, d.Dead, d.Parked)
}

// checkResults returns an error if a sink was never configured, or has no space for its dead
// letters or parked events.
func (r *writeRound) checkResults(sink string, dead []DeadLetter, parked []Parked) error {
	if _, err := cursorOf(r.tx.Tx, sink); err != nil {
		return err
	}
	if err := r.deadSpace(sink, dead); err != nil {
		return err
	}
	return r.parkedSpace(sink, parked)
}

// putResults writes a sink's dead letters and parked events.
func (r *writeRound) putResults(sink string, dead []DeadLetter, parked []Parked) error {
	r.changed = true
	if err := park(r.tx, sink, parked); err != nil {
		return err
	}
	return putDead(r.tx, SinkOwner(sink), dead)
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
	// Event reports the skip. It is appended to the journal for every sink, this one included.
	Event transform.Event
}

// Skip moves the cursor, counts the skipped events, and appends the event, in one transaction. It needs no space in the journal. It returns ErrFenced if the cursor is not
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
