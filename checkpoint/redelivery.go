package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// RedeliveryOffset is an offset in a sink's redelivery queue. Callers only compare offsets
// and pass them back.
type RedeliveryOffset struct {
	// Item increases with every item queued, from 1. Queues never share a number, even if one
	// sink has the name that another had.
	Item uint64
	Seq  uint64 // the event's sequence number within a replayed range; else 0
}

// Redelivered is an event to be delivered to a sink again.
type Redelivered struct {
	// Record is the original event. Seq is 0 if it was a dead letter.
	Record
	Offset RedeliveryOffset
	// Key is the key of the event's dead letter if it is rejected again: the key
	// that its dead letter had before, else DeadKey of Seq.
	Key string
}

// Redelivery is the next part of a sink's redelivery queue.
type Redelivery struct {
	Offset  RedeliveryOffset // where the queue begins; before Records if some events were trimmed
	Records []Redelivered
}

// RedeliveryCommit is what a sink has done with the leading events of a
// Redelivery.
type RedeliveryCommit struct {
	Sink string
	// Expect is where the caller believes the queue to begin: Redelivery.Offset.
	Expect RedeliveryOffset
	// Last is the offset of the last event that is acknowledged or among Dead or Parked,
	// and Events is how many there are. Other events up to Last had been trimmed, and
	// count as skipped.
	Last   RedeliveryOffset
	Events int
	Dead   []DeadLetter
	Parked []Parked // as in Delivery
}

// Range is a range of the journal; the zero value is empty.
type Range struct {
	First, Last uint64 // sequence numbers
}

// Events returns the number of events in the range.
func (r Range) Events() uint64 {
	if r == (Range{}) {
		return 0
	}
	return r.Last + 1 - r.First
}

// Period selects events by when they were recorded: at or after Since, and before Until
// unless it is zero.
type Period struct{ Since, Until time.Time }

// Requeue moves a sink's dead letters to the end of its queue, in the order of keys, or
// all of them in the order of their keys if keys is nil. It ignores unknown keys, and
// leaves a dead letter whose body is not an event where it is. n is how many were moved,
// even if err is not nil: many dead letters are moved in several transactions.
func (s *Store) Requeue(ctx context.Context, sink string, keys []string) (n int, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		_, err := cursorOf(tx, sink)
		return err
	})
	if err == nil {
		n, err = s.removeDead(ctx, SinkOwner(sink), keys, func(r *writeRound, key string, value []byte) (bool, error) {
			_, event, _ := bytes.Cut(value, []byte{'\n'})
			if _, err := parseEvent(event); err != nil {
				return false, nil
			}
			return true, r.requeue(sink, key, event)
		})
	}
	return n, wrapf(err, "requeue dead letters of %s", sink)
}

// requeue appends an event to a sink's queue.
func (r *writeRound) requeue(sink, key string, event []byte) error {
	requeued, _, number, err := nextItem(r.tx, sink)
	if err != nil {
		return err
	}
	requeued.Add(number, appendRequeued(key, event))
	c := countsOf(r.tx.Tx, sink)
	c.requeued++
	r.queued = true
	c.put(r.tx, sink)
	return nil
}

// Replay appends a range of the journal to the sink's queue: the events of a period up to
// the sink's cursor (events after the cursor are delivered anyway). While the sink is
// configured, Limits.Retain trims no part of the range before it is redelivered; MaxBytes
// does.
func (s *Store) Replay(ctx context.Context, sink string, p Period) (Range, error) {
	var queued Range
	err := s.do(ctx, change{check: hasCursor(sink), write: func(r *writeRound) error {
		selected, err := r.journal.completed(r.tx.Tx, sink, p)
		if err != nil || selected == (Range{}) {
			return err
		}
		_, replayed, number, err := nextItem(r.tx, sink)
		if err != nil {
			return err
		}
		replayed.Add(number, encode(selected.First, selected.Last))
		queued, r.changed, r.queued = selected, true, true
		return nil
	}})
	return queued, wrapf(err, "replay to %s", sink)
}

// Replayable returns the range that Replay would append now. It changes nothing.
func (s *Store) Replayable(ctx context.Context, sink string, p Period) (selected Range, err error) {
	err = s.viewJournal(ctx, func(tx *bolt.Tx, j *journal) error {
		selected, err = j.completed(tx, sink, p)
		return err
	})
	return selected, wrapf(err, "find what can be replayed to %s", sink)
}

// completed returns the events of a period up to a sink's cursor.
func (j *journal) completed(tx *bolt.Tx, sink string, p Period) (Range, error) {
	last, err := cursorOf(tx, sink)
	if err != nil {
		return Range{}, err
	}
	first, err := j.since(p.Since)
	if err == nil && !p.Until.IsZero() {
		var end uint64
		end, err = j.since(p.Until)
		last = min(last, end-1)
	}
	if err != nil || first > last {
		return Range{}, err
	}
	return Range{First: first, Last: last}, nil
}

// Redeliver returns the events of the queue after an offset (zero: from its beginning), without
// waiting, in the order in which they were queued; no records if there are none. It changes
// nothing. The caller owns the result.
func (s *Store) Redeliver(ctx context.Context, sink string, after RedeliveryOffset, max Batch) (Redelivery, error) {
	var next Redelivery
	err := s.view(ctx, func(tx *bolt.Tx) (err error) {
		if _, err = cursorOf(tx, sink); err == nil {
			next, err = openQueue(tx, sink).read(tx, after, max)
		}
		return err
	})
	return next, wrapf(err, "redeliver to %s", sink)
}

// IsAfter reports whether o is behind other in its queue.
func (o RedeliveryOffset) IsAfter(other RedeliveryOffset) bool {
	return o.Item > other.Item || o.Item == other.Item && o.Seq > other.Seq
}

// read returns copies of the queue's events after an offset.
func (q redeliveryTable) read(tx *bolt.Tx, after RedeliveryOffset, most Batch) (next Redelivery, err error) {
	size := 0
	add := func(r Redelivered, value []byte) (bool, error) {
		if !most.admits(len(next.Records), size, len(value)) {
			return false, nil
		}
		r.Event, err = eventOf(value)
		next.Records = append(next.Records, r)
		size += len(value)
		return err == nil, err
	}
	for i, err := range q.items() {
		if err != nil {
			return next, err
		}
		if next.Offset == (RedeliveryOffset{}) {
			next.Offset = i.offset()
		}
		if !i.replays() {
			if !i.offset().IsAfter(after) {
				continue
			}
			if more, err := add(Redelivered{Offset: i.offset(), Key: string(i.key)}, i.event); !more {
				return next, err
			}
			continue
		}
		first := i.first
		if i.number == after.Item {
			first = max(first, after.Seq+1)
		} else if i.number < after.Item {
			continue
		}
		for key, value := range walk(tx.Bucket(journalBucket), encode(first)) {
			m, err := parseMark(key)
			if err != nil {
				return next, fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			if m.seq > i.last {
				break
			}
			offset := RedeliveryOffset{i.number, m.seq}
			if more, err := add(Redelivered{Record: Record{Seq: m.seq}, Offset: offset, Key: DeadKey(m.seq)}, value); !more {
				return next, err
			}
		}
	}
	return next, nil
}

// WaitRedelivery blocks until there is something to redeliver, and returns nil; it returns
// ctx's error if ctx is done first, or ErrClosed.
func (s *Store) WaitRedelivery(ctx context.Context, sink string) error {
	return s.await(ctx, &s.queued, func() (bool, error) {
		next, err := s.Redeliver(ctx, sink, RedeliveryOffset{}, Batch{MaxEvents: 1})
		return len(next.Records) > 0, err
	})
}

// CommitRedelivery removes events from the queue, and writes the dead letters and the parked
// events with that. It returns ErrFenced if the queue does not begin at c.Expect, and
// ErrDeadFull or ErrParkedFull as CommitDelivery does.
func (s *Store) CommitRedelivery(ctx context.Context, c RedeliveryCommit) error {
	err := validateDead(c.Dead)
	if err == nil {
		var l leading
		err = s.do(ctx, change{
			check: func(r *writeRound) (err error) {
				l, err = c.check(r)
				return err
			},
			write: func(r *writeRound) error {
				l.remove(r.tx, c.Sink)
				return r.putResults(c.Sink, c.Dead, c.Parked)
			},
		})
	}
	return wrapf(err, "commit the redelivery to %s", c.Sink)
}

// check returns the part of the queue that a commit removes, or why it is refused.
func (c *RedeliveryCommit) check(r *writeRound) (l leading, err error) {
	q := openQueue(r.tx.Tx, c.Sink)
	begin, err := q.begin()
	switch {
	case err != nil:
		return l, err
	case begin == (RedeliveryOffset{}) || begin != c.Expect:
		return l, ErrFenced
	}
	if l, err = q.upTo(c.Last, c.Events); err != nil {
		return l, err
	}
	return l, r.checkResults(c.Sink, c.Dead, c.Parked)
}

// leading is the part of a queue that a commit removes.
type leading struct {
	requeued [][]byte // numbers of items, copied
	replayed [][]byte
	skipped  uint64 // events that had been trimmed
	left     *item  // what remains of the last range; nil: nothing
}

// remove removes the part from the sink's queue, and counts that.
func (l leading) remove(tx *boltfile.Tx, sink string) {
	requeued, replayed := tx.Table(requeuedBucket).Inside([]byte(sink)), tx.Table(replayedBucket).Inside([]byte(sink))
	for _, number := range l.requeued {
		requeued.Delete(number)
	}
	for _, number := range l.replayed {
		replayed.Delete(number)
	}
	if l.left != nil {
		replayed.Put(encode(l.left.number), encode(l.left.first, l.left.last))
	}
	if len(l.requeued) == 0 && l.skipped == 0 {
		return
	}
	c := countsOf(tx.Tx, sink)
	c.requeued -= uint64(len(l.requeued))
	c.skipped += l.skipped
	c.put(tx, sink)
}

// upTo returns the part of the queue up to an offset, of which so many events were delivered.
func (q redeliveryTable) upTo(last RedeliveryOffset, delivered int) (l leading, err error) {
	found, total := false, uint64(0)
	for i, err := range q.items() {
		if err != nil {
			return l, err
		}
		if i.number > last.Item {
			break
		}
		is := i.number == last.Item
		switch {
		case !i.replays():
			found = is && last.Seq == 0
			l.requeued = append(l.requeued, encode(i.number))
			total++
		case is && i.first <= last.Seq && last.Seq < i.last:
			found = true
			l.left = &item{number: i.number, first: last.Seq + 1, last: i.last}
			total += last.Seq + 1 - i.first
		default:
			found = is && last.Seq == i.last
			l.replayed = append(l.replayed, encode(i.number))
			total += i.events()
		}
		if found { // what follows is not read
			break
		}
	}
	switch {
	case !found:
		return l, errors.New("the queue does not hold the events to be committed")
	case delivered < 0 || uint64(delivered) > total || len(l.requeued) > delivered:
		return l, fmt.Errorf("%d events cannot be committed of %d", delivered, total)
	}
	l.skipped = total - uint64(delivered)
	return l, nil
}

// redeliveryTable is a sink's redelivery queue within one transaction: requeued events and
// replayed ranges of the journal, in the order of their numbers. A bucket is nil if there
// is nothing of its kind.
type redeliveryTable struct {
	requeued, replayed *bolt.Bucket
}

func openQueue(tx *bolt.Tx, sink string) redeliveryTable {
	return redeliveryTable{inside(tx, requeuedBucket, []byte(sink)), inside(tx, replayedBucket, []byte(sink))}
}

// item is an item of a queue: a requeued event, or what remains of a range.
type item struct {
	number      uint64
	key, event  []byte // of a requeued event; valid within the transaction
	first, last uint64 // of a range; 0 for an event
}

func (i *item) replays() bool { return i.last != 0 }

// events returns the number of an item's events, trimmed ones included.
func (i *item) events() uint64 {
	if i.replays() {
		return i.last + 1 - i.first
	}
	return 1
}

func (i *item) offset() RedeliveryOffset { return RedeliveryOffset{Item: i.number, Seq: i.first} }

// items yields the queued items, in order, up to the first that cannot be read.
func (q redeliveryTable) items() iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		var requeued, replayed *bolt.Cursor
		var event, eventValue, span, spanValue []byte
		if q.requeued != nil {
			requeued = q.requeued.Cursor()
			event, eventValue = requeued.First()
		}
		if q.replayed != nil {
			replayed = q.replayed.Cursor()
			span, spanValue = replayed.First()
		}
		for event != nil || span != nil {
			var i item
			var err error
			if span == nil || event != nil && string(event) < string(span) {
				i, err = parseRequeued(event, eventValue)
				event, eventValue = requeued.Next()
			} else {
				i, err = parseReplayed(span, spanValue)
				span, spanValue = replayed.Next()
			}
			if err != nil {
				yield(i, fmt.Errorf("%w: %w", ErrDamaged, err))
				return
			}
			if !yield(i, nil) {
				return
			}
		}
	}
}

// begin returns the offset at which the queue begins, or the zero offset if it is empty.
func (q redeliveryTable) begin() (RedeliveryOffset, error) {
	for i, err := range q.items() {
		return i.offset(), err
	}
	return RedeliveryOffset{}, nil
}

// ranges calls do with every queued range.
func (q redeliveryTable) ranges(do func(item)) error {
	if q.replayed == nil {
		return nil
	}
	return q.replayed.ForEach(func(key, value []byte) error {
		i, err := parseReplayed(key, value)
		if err == nil {
			do(i)
		}
		return err
	})
}

// nextItem assigns the next number of a sink's queue, and creates the queue if there is
// none.
func nextItem(tx *boltfile.Tx, sink string) (requeued, replayed *boltfile.Table, number []byte, err error) {
	if requeued, err = tx.Table(requeuedBucket).Make([]byte(sink)); err == nil {
		replayed, err = tx.Table(replayedBucket).Make([]byte(sink))
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("redelivery queue: %w", err)
	}
	// No number is assigned twice, even if a sink was forgotten or renamed and another
	// has its name now: a target may identify a redelivery by the sink's name and this
	// number.
	all := tx.Table(requeuedBucket)
	n := max(all.Sequence(), requeued.Sequence()) + 1
	if err := errors.Join(all.SetSequence(n), requeued.SetSequence(n)); err != nil {
		return nil, nil, nil, fmt.Errorf("redelivery queue: %w", err)
	}
	return requeued, replayed, encode(n), nil
}

func appendRequeued(key string, event []byte) []byte {
	b := make([]byte, 0, 2+len(key)+len(event))
	b = binary.BigEndian.AppendUint16(b, uint16(len(key)))
	return append(append(b, key...), event...)
}

func parseRequeued(key, value []byte) (item, error) {
	if len(key) != 8 || len(value) < 2 || len(value)-2 < int(binary.BigEndian.Uint16(value)) {
		return item{}, errors.New("a requeued event cannot be read")
	}
	keyed := 2 + int(binary.BigEndian.Uint16(value))
	return item{number: binary.BigEndian.Uint64(key), key: value[2:keyed], event: value[keyed:]}, nil
}

func parseReplayed(key, value []byte) (item, error) {
	if len(key) != 8 || len(value) != 16 {
		return item{}, errors.New("a replayed range cannot be read")
	}
	ends := decode(value)
	return item{number: decode(key)[0], first: ends[0], last: ends[1]}, nil
}

// counts holds a sink's counts for its Stats.
type counts struct {
	requeued    uint64 // events
	skipped     uint64
	parked      uint64 // events
	parkedBytes int64
}

func countsOf(tx *bolt.Tx, sink string) counts {
	n := decode(valueOf(tx, countsBucket, sink))
	return counts{requeued: n[0], skipped: n[2], parked: n[3], parkedBytes: int64(n[4])}
}

func (c counts) put(tx *boltfile.Tx, sink string) {
	value := encode(c.requeued, 0, c.skipped)
	if c.parked > 0 {
		value = encode(c.requeued, 0, c.skipped, c.parked, uint64(c.parkedBytes))
	}
	tx.Table(countsBucket).Put([]byte(sink), value)
}

// held returns the number of the first event that a configured sink still has to get
// again, or the one after the journal's last.
func (r *writeRound) held() (uint64, error) {
	lowest := r.journal.last + 1
	for sink := range r.configured {
		err := openQueue(r.tx.Tx, sink).ranges(func(i item) {
			if i.last >= r.journal.first {
				lowest = min(lowest, max(i.first, r.journal.first))
			}
		})
		if err != nil {
			return 0, fmt.Errorf("redelivery queue of %s: %w", sink, err)
		}
	}
	return lowest, nil
}
