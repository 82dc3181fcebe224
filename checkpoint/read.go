package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/transform"
)

// Record is an event in the journal.
type Record struct {
	Seq   uint64 // increases by one with every event, from 1
	Event transform.Event
}

// Batch bounds what Read returns. If there is an event at all, at least one is returned,
// however large it is.
type Batch struct {
	MaxEvents int // 0: no bound
	MaxBytes  int // of structured events; 0: no bound
}

// admits reports whether a batch of so many events and bytes may take one more of next
// bytes.
func (b Batch) admits(events, bytes, next int) bool {
	return events == 0 || (b.MaxEvents <= 0 || events < b.MaxEvents) && (b.MaxBytes <= 0 || bytes+next <= b.MaxBytes)
}

// Read returns events after a sequence number, without waiting. Events after a cursor that
// were trimmed while the sink was not configured are left out. The caller owns the result.
func (s *Store) Read(ctx context.Context, after uint64, max Batch) ([]Record, error) {
	if records := s.readTail(ctx, after, max); len(records) > 0 {
		return records, nil
	}
	var records []Record
	err := s.view(ctx, func(tx *bolt.Tx) error {
		size := 0
		cursor := tx.Bucket(journalBucket).Cursor()
		for key, value := cursor.Seek(encode(after + 1)); key != nil && max.admits(len(records), size, len(value)); key, value = cursor.Next() {
			r, err := recordOf(key, value)
			if err != nil {
				return err
			}
			records = append(records, r)
			size += len(value)
		}
		return nil
	})
	return records, wrapf(err, "read the journal after %d", after)
}

// recordOf returns a copy of an entry of the journal.
func recordOf(key, value []byte) (Record, error) {
	m, err := parseMark(key)
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	e, err := eventOf(value)
	if err != nil {
		return Record{}, fmt.Errorf("event %d: %w", m.seq, err)
	}
	return Record{Seq: m.seq, Event: e}, nil
}

// eventOf returns a copy of a stored event.
func eventOf(value []byte) (transform.Event, error) {
	e, err := parseEvent(bytes.Clone(value))
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return e, nil
}

// readTail reads events from memory. It returns none if Read must not return an event: once
// a store with a Log has failed, somebody else may deliver them.
func (s *Store) readTail(ctx context.Context, after uint64, max Batch) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.closed || s.log != nil && s.Err() != nil {
		return nil
	}
	return s.tail.read(after, max)
}

// Wait blocks until the journal holds an event after the sequence number, and returns nil;
// it returns ctx's error if ctx is done first, or ErrClosed.
func (s *Store) Wait(ctx context.Context, after uint64) error {
	return s.await(ctx, &s.appended, func() (holds bool, err error) {
		err = s.viewJournal(ctx, func(_ *bolt.Tx, j *journal) error {
			holds = !j.empty() && j.last > after
			return nil
		})
		return holds, err
	})
}

// await blocks until reached returns true or an error. It calls it again when b happens,
// ctx is done or the store is closed.
func (s *Store) await(ctx context.Context, b *broadcast, reached func() (bool, error)) error {
	for {
		s.mu.Lock()
		next := b.next() // before reached is called, so that nothing in between is missed
		s.mu.Unlock()
		if is, err := reached(); is || err != nil {
			return err
		}
		select {
		case <-next:
		case <-s.closing:
		case <-ctx.Done():
		}
	}
}

// Since returns the sequence number of the first event in the journal that was recorded at
// or after t, or the number that the next event will get. Its cost does not grow with the
// journal.
func (s *Store) Since(ctx context.Context, t time.Time) (seq uint64, err error) {
	err = s.viewJournal(ctx, func(_ *bolt.Tx, j *journal) error {
		seq, err = j.since(t)
		return err
	})
	return seq, wrapf(err, "find the first event since %s", t)
}

// tailBytes is how many bytes of events a tail keeps: about two full pages of detections.
const tailBytes = 4 << 20

// tail keeps the end of the journal in memory, the events committed last, for sinks that
// keep up. It holds only events that are in the file.
type tail struct {
	limit   int      // in bytes
	records []Record // with consecutive sequence numbers
	bytes   int      // of their events
}

// append adds committed events, the last of which has the number last, and drops those before
// first, which were trimmed, and the oldest ones beyond the limit.
func (t *tail) append(rounds [][]transform.Event, first, last uint64) {
	seq := last + 1
	for _, events := range rounds {
		seq -= uint64(len(events))
	}
	for _, events := range rounds {
		for _, e := range events {
			t.records = append(t.records, Record{Seq: seq, Event: e})
			t.bytes += len(e.Structured())
			seq++
		}
	}
	old := 0
	for ; old < len(t.records) && (t.bytes > t.limit || t.records[old].Seq < first); old++ {
		t.bytes -= len(t.records[old].Event.Structured())
	}
	clear(t.records[:old])
	t.records = t.records[old:]
}

// drop drops all events.
func (t *tail) drop() { t.records, t.bytes = nil, 0 }

// read returns events after a number as Store.Read does, or none if the first of them is
// not in the tail.
func (t *tail) read(after uint64, max Batch) []Record {
	if len(t.records) == 0 || after+1 < t.records[0].Seq || after >= t.records[len(t.records)-1].Seq {
		return nil
	}
	records := t.records[after+1-t.records[0].Seq:]
	n, size := 0, 0
	for n < len(records) && max.admits(n, size, len(records[n].Event.Structured())) {
		size += len(records[n].Event.Structured())
		n++
	}
	return slices.Clone(records[:n])
}
