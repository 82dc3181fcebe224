package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
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

// part is a part of what the file holds of a sink: a value, or a bucket.
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
	copied.FillPercent = appendFill
	return from.ForEach(func(key, value []byte) error {
		copied.Add(key, bytes.Clone(value))
		return nil
	})
}
