package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
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
		var keys, values [][]byte
		size := 0
		cursor := tx.Bucket(journalBucket).Cursor()
		for key, value := cursor.Seek(encode(after + 1)); key != nil && max.admits(len(keys), size, len(value)); key, value = cursor.Next() {
			keys, values, size = append(keys, key), append(values, value), size+len(value)
		}
		records = make([]Record, 0, len(keys))
		owned := make([]byte, 0, size) // one allocation for all events
		for i, key := range keys {
			start := len(owned)
			owned = append(owned, values[i]...)
			r, err := recordOf(key, owned[start:len(owned):len(owned)])
			if err != nil {
				return err
			}
			records = append(records, r)
		}
		return nil
	})
	return records, wrapf(err, "read the journal after %d", after)
}

// recordOf returns an entry of the journal, which retains value.
func recordOf(key, value []byte) (Record, error) {
	m, err := parseMark(key)
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	e, err := parseEvent(value)
	if err != nil {
		return Record{}, fmt.Errorf("%w: event %d: %w", ErrDamaged, m.seq, err)
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
	if old > len(t.records)/8 { // moving the rest costs less than allocating it again with the next events
		t.records = slices.Delete(t.records, 0, old)
		return
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

// Search selects events by how their structured form begins, and bounds the work of a call.
type Search struct {
	// Prefixes are the beginnings of the structured forms of selected events.
	Prefixes [][]byte
	// MaxBytes bounds the events that are looked at, whether they are selected or not; one is
	// looked at, however large it is.
	MaxBytes int64
	// Found bounds the result.
	Found Batch
}

func (s Search) selects(event []byte) bool {
	return slices.ContainsFunc(s.Prefixes, func(prefix []byte) bool { return bytes.HasPrefix(event, prefix) })
}

// SearchedJournal is the result of a search of the journal.
type SearchedJournal struct {
	Records []Record // newest first
	// First is the number of the oldest event that was looked at, and Recorded when it was
	// recorded, by the clock as it is now. First is 0 if none was looked at.
	First    uint64
	Recorded time.Time
	// Whole is true if the journal has no event before First.
	Whole bool
	// Looked is the size of the events that were looked at.
	Looked int64
}

// SearchJournal searches the events of the journal before a sequence number (0: all), from
// the newest to the oldest, until it has looked at all or reaches a bound of s. It reads only
// the beginning of an event that is not selected. The caller owns the result.
func (s *Store) SearchJournal(ctx context.Context, before uint64, by Search) (found SearchedJournal, err error) {
	err = s.viewJournal(ctx, func(_ *bolt.Tx, j *journal) error {
		found.Whole = true
		cursor := j.events.Cursor()
		key, value := cursor.Last()
		if before > 0 && before <= j.last {
			cursor.Seek(encode(before)) // an event of the journal, or its first
			key, value = cursor.Prev()
		}
		size := 0
		for ; key != nil; key, value = cursor.Prev() {
			selected := by.selects(value)
			if found.Looked > 0 && found.Looked+int64(len(value)) > by.MaxBytes || selected && !by.Found.admits(len(found.Records), size, len(value)) {
				found.Whole = false
				break
			}
			m, err := parseMark(key)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			found.Looked += int64(len(value))
			found.First, found.Recorded = m.seq, time.UnixMilli(j.recordedBy(m.seq, m.recorded)).UTC()
			if selected {
				r, err := recordOf(key, bytes.Clone(value))
				if err != nil {
					return err
				}
				found.Records = append(found.Records, r)
				size += len(value)
			}
		}
		return nil
	})
	return found, wrapf(err, "search the journal")
}

// SearchedDead is the result of a search of an owner's dead letters.
type SearchedDead struct {
	DeadLetters []DeadLetter
	// Next is the key after which another search continues; empty: all were looked at.
	Next string
	// Looked is the size of the dead letters that were looked at.
	Looked int64
}

// SearchDead searches the dead letters of an owner whose keys follow after ("": all), in the
// order of their keys, for those with an event that by selects, until it has looked at all or
// reaches a bound of by. The caller owns the result.
func (s *Store) SearchDead(ctx context.Context, o Owner, after string, by Search) (found SearchedDead, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		last, size := after, 0
		for key, value := range walk(inside(tx, deadBucket, []byte(o)), behind(after)) {
			_, body, _ := bytes.Cut(value, []byte{'\n'})
			selected := by.selects(body)
			if found.Looked > 0 && found.Looked+int64(len(value)) > by.MaxBytes || selected && !by.Found.admits(len(found.DeadLetters), size, len(body)) {
				found.Next = last
				return nil
			}
			found.Looked += int64(len(value))
			last = string(key)
			if selected {
				d, err := decodeDead(key, value)
				if err != nil {
					return err
				}
				found.DeadLetters = append(found.DeadLetters, d)
				size += len(body)
			}
		}
		return nil
	})
	return found, wrapf(err, "search the dead letters of %s", o)
}

// Delivered is the state of the delivery of one event to a sink.
type Delivered struct {
	Past   bool        // the sink's cursor is past the event: it was sent, filtered or skipped
	Dead   *DeadLetter // that the sink has of the event, without its body; nil: none
	Parked bool        // the sink delivers the event later
	Queued bool        // the event is queued for redelivery
}

// maxQueued bounds the items of a redelivery queue, and the parked events, that Deliveries
// reads. An event that is queued or parked behind them is not shown as such.
const maxQueued = 10_000

// Deliveries returns the states of the delivery to a sink of the events with these numbers, in
// their order. The events need not be in the journal any more.
// It returns an error if the sink was never configured.
func (s *Store) Deliveries(ctx context.Context, sink string, seqs []uint64) (all []Delivered, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		cursor, err := cursorOf(tx, sink)
		if err != nil {
			return err
		}
		dead := inside(tx, deadBucket, []byte(SinkOwner(sink)))
		index := make(map[string]int, len(seqs))
		for i, seq := range seqs {
			key := DeadKey(seq)
			index[key] = i
			d := Delivered{Past: seq <= cursor}
			if value := get(dead, []byte(key)); value != nil {
				deadLetter, err := splitDead([]byte(key), value)
				if err != nil {
					return err
				}
				deadLetter.Body = nil
				d.Dead = &deadLetter
			}
			all = append(all, d)
		}
		looked := 0
		for number, value := range walk(inside(tx, parkedBucket, []byte(sink)), nil) {
			if looked++; looked > maxQueued {
				break
			}
			p, _, err := parseParked(number, value)
			if err != nil {
				return err
			}
			if i, ok := index[p.Key]; ok && p.Offset == (RedeliveryOffset{}) {
				all[i].Parked = true
			}
		}
		looked = 0
		for item, err := range openQueue(tx, sink).items() {
			if looked++; err != nil || looked > maxQueued {
				return err
			}
			if i, ok := index[string(item.key)]; ok && !item.replays() {
				all[i].Queued = true
			}
			for i, seq := range seqs {
				if item.replays() && item.first <= seq && seq <= item.last {
					all[i].Queued = true
				}
			}
		}
		return nil
	})
	return all, wrapf(err, "deliveries to %s", sink)
}

// LastCommands returns up to limit of the last commands for an appliance for which is returns
// true, newest first. It looks at no more than among commands, of all appliances.
func (s *Store) LastCommands(ctx context.Context, appliance string, among, limit int, is func(Command) bool) (found []Command, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		commands := tx.Bucket(commandsBucket)
		if commands == nil {
			return nil
		}
		cursor := commands.Cursor()
		for id, value := cursor.Last(); id != nil && among > 0 && len(found) < limit; id, value = cursor.Prev() {
			among--
			k, err := parseCommand(id, value)
			if err != nil {
				return err
			}
			if k.Appliance == appliance {
				if c := k.command(); is(c) {
					found = append(found, c)
				}
			}
		}
		return nil
	})
	return found, wrapf(err, "search the commands for %s", appliance)
}

// SeqOfDeadKey returns the number of the event of a dead letter, whose key is DeadKey(seq).
func SeqOfDeadKey(key string) (seq uint64, err error) {
	if seq, err = strconv.ParseUint(key, 10, 64); err != nil || DeadKey(seq) != key {
		return 0, fmt.Errorf("%.40q is not the key of an event", key)
	}
	return seq, nil
}
