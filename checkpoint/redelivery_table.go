package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

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

// events returns the number of an item's events, those that were trimmed included.
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
	requeued.FillPercent = appendFill
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
