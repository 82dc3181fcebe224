package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// Parked is an event that its sink delivers later, apart from the queue that it came from:
// the journal, or the redelivery queue.
type Parked struct {
	ParkedHead
	// Redelivered is the event as it was in its queue. Its Offset is zero if it comes from
	// the journal.
	Redelivered
}

// ParkedHead describes a parked event. It is small: there may be as many as a sink's DeadShare
// holds.
type ParkedHead struct {
	// Number is assigned when the event is parked. It increases within a sink.
	Number uint64 `json:"-"`
	// Order is the ordering key: the events of a sink with the same one, unless it is
	// empty, are delivered in the order of their numbers.
	Order string `json:"order,omitempty"`
	// Failures is the number of failures that count against the event, and First is the time
	// of the first of them.
	Failures int       `json:"failures,omitempty"`
	First    time.Time `json:"first,omitzero"`
	// Attempts is the number of failed attempts to deliver the event, whether they count against
	// it or not.
	Attempts int `json:"attempts,omitempty"`
}

// storedHead is the JSON that precedes a stored parked event.
type storedHead struct {
	Key    string   `json:"key"`
	Seq    uint64   `json:"seq,omitempty"`
	Offset []uint64 `json:"offset,omitempty"` // Item and Seq
	ParkedHead
}

// ParkedCommit holds the results of a sink's attempt to deliver parked events.
type ParkedCommit struct {
	Sink string
	// Done holds the numbers of the events that are acknowledged, filtered or among Dead.
	// Numbers of events that are no longer parked are ignored, here and in Failed.
	Done []uint64
	// Failed holds events that stay parked. Their Failures, First and Attempts are stored.
	Failed []ParkedHead
	Dead   []DeadLetter
}

// ParkedHeads returns the heads of a sink's parked events after a number, in their order.
func (s *Store) ParkedHeads(ctx context.Context, sink string, after uint64) (heads []ParkedHead, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		for key, value := range walk(inside(tx, parkedBucket, []byte(sink)), encode(after+1)) {
			p, _, err := parseParked(key, value)
			if err != nil {
				return err
			}
			heads = append(heads, p.ParkedHead)
		}
		return nil
	})
	return heads, wrapf(err, "parked events of %s", sink)
}

// Parked returns a sink's parked events with these numbers, as many of the first ones as max
// allows. It leaves out events that are no longer parked. The caller owns the result.
func (s *Store) Parked(ctx context.Context, sink string, numbers []uint64, max Batch) (events []Parked, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		parked := inside(tx, parkedBucket, []byte(sink))
		size := 0
		for _, number := range numbers {
			p, event, err := getParked(parked, number)
			if err != nil {
				return err
			}
			if event == nil {
				continue
			}
			if !max.admits(len(events), size, len(event)) {
				break
			}
			if p.Event, err = eventOf(event); err != nil {
				return err
			}
			events = append(events, p)
			size += len(event)
		}
		return nil
	})
	return events, wrapf(err, "parked events of %s", sink)
}

// CommitParked removes parked events and writes the dead letters among them in one transaction.
// It returns ErrDeadFull as CommitDelivery does.
func (s *Store) CommitParked(ctx context.Context, c ParkedCommit) error {
	err := validateDead(c.Dead)
	if err == nil {
		err = s.do(ctx, change{
			check: func(r *writeRound) error { return r.checkResults(c.Sink, c.Dead, nil) },
			write: c.write,
		})
	}
	return wrapf(err, "commit the parked events of %s", c.Sink)
}

func (c *ParkedCommit) write(r *writeRound) error {
	parked := r.tx.Table(parkedBucket).Inside([]byte(c.Sink))
	if parked == nil {
		return nil
	}
	counts := countsOf(r.tx.Tx, c.Sink)
	for _, number := range c.Done {
		key := encode(number)
		value := parked.Get(key)
		if value == nil {
			continue
		}
		counts.parked--
		counts.parkedBytes -= deadBody(value)
		parked.Delete(key)
	}
	for _, failed := range c.Failed {
		p, event, err := getParked(parked.Bucket, failed.Number)
		if err != nil {
			return err
		}
		if event == nil {
			continue
		}
		p.Failures, p.First, p.Attempts = failed.Failures, failed.First, failed.Attempts
		value, err := encodeParked(p, event)
		if err != nil {
			return err
		}
		parked.Put(encode(p.Number), value)
	}
	counts.put(r.tx, c.Sink)
	return r.putResults(c.Sink, c.Dead, nil)
}

// parkedSpace returns ErrParkedFull if a sink's parked events would exceed its share. A single
// one may exceed it, because it would wait without end otherwise.
func (r *writeRound) parkedSpace(sink string, events []Parked) error {
	share := r.limits.DeadShare(len(r.configured))
	if share == 0 || len(events) == 0 {
		return nil
	}
	added := int64(0)
	for _, p := range events {
		added += int64(len(p.Event.Structured()))
	}
	now := countsOf(r.tx.Tx, sink)
	if now.parkedBytes+added > share && now.parked+uint64(len(events)) > 1 {
		return fmt.Errorf("%w: %d bytes of them, and %d more, exceed the sink's share of %d", ErrParkedFull, now.parkedBytes, added, share)
	}
	return nil
}

// park appends events to a sink's parked events.
func park(tx *boltfile.Tx, sink string, events []Parked) error {
	if len(events) == 0 {
		return nil
	}
	parked, err := tx.Table(parkedBucket).Make([]byte(sink))
	if err != nil {
		return fmt.Errorf("parked events: %w", err)
	}
	counts := countsOf(tx.Tx, sink)
	number := parked.Sequence()
	for _, p := range events {
		number++
		value, err := encodeParked(p, p.Event.Structured())
		if err != nil {
			return err
		}
		parked.Add(encode(number), value)
		counts.parked++
		counts.parkedBytes += int64(len(p.Event.Structured()))
	}
	counts.put(tx, sink)
	return parked.SetSequence(number)
}

// encodeParked returns the stored form of a parked event: a line of JSON, then the event.
func encodeParked(p Parked, event []byte) ([]byte, error) {
	head := storedHead{Key: p.Key, Seq: p.Seq, ParkedHead: p.ParkedHead}
	head.First = head.First.UTC()
	if p.Offset != (RedeliveryOffset{}) {
		head.Offset = []uint64{p.Offset.Item, p.Offset.Seq}
	}
	line, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("parked event: %w", err)
	}
	return append(append(line, '\n'), event...), nil
}

// getParked returns the parked event with a number; its event is nil if it is no longer parked,
// and valid within the transaction otherwise.
func getParked(parked *bolt.Bucket, number uint64) (p Parked, event []byte, err error) {
	key := encode(number)
	if value := get(parked, key); value != nil {
		return parseParked(key, value)
	}
	return p, nil, nil
}

// parseParked is the inverse of encodeParked. The event is valid within the transaction.
func parseParked(key, value []byte) (p Parked, event []byte, err error) {
	line, event, ok := bytes.Cut(value, []byte{'\n'})
	if !ok || len(key) != 8 {
		return p, nil, fmt.Errorf("%w: a parked event cannot be read", ErrDamaged)
	}
	var head storedHead
	if err := json.Unmarshal(line, &head); err != nil {
		return p, nil, fmt.Errorf("%w: a parked event: %w", ErrDamaged, err)
	}
	head.Number = binary.BigEndian.Uint64(key)
	p.ParkedHead, p.Key, p.Seq = head.ParkedHead, head.Key, head.Seq
	if len(head.Offset) == 2 {
		p.Offset = RedeliveryOffset{Item: head.Offset[0], Seq: head.Offset[1]}
	}
	return p, event, nil
}
