package sinks

import (
	"context"
	"errors"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// keyed returns a batch with an event of each ordering key, numbered from first.
func keyed(first uint64, keys ...string) *deliveryBatch {
	b := new(deliveryBatch)
	for i, key := range keys {
		var r checkpoint.Parked
		r.Seq, r.Order = first+uint64(i), key
		b.add(r, transform.Event{}, nil)
	}
	return b
}

// followed is a queue with a batch behind the one in flight.
type followed struct {
	eventQueue
	more *deliveryBatch
}

func (q followed) behind(_ context.Context, after checkpoint.Parked, _ checkpoint.Batch) (*deliveryBatch, error) {
	if after.Seq >= q.more.last().Seq {
		return new(deliveryBatch), nil
	}
	return q.more, nil
}

// If a halt undoes a dead letter, a later version that was sent ahead would be before it.
func TestNoEventIsSentAheadOfADeadLetterThatMayBeUndone(t *testing.T) {
	b := keyed(1, "a", "b")
	b.deadLetter(0, errors.New("400 bad request"))
	s := newScout(followed{more: keyed(3, "a", "b", "c")}, checkpoint.Batch{})
	for range 3 {
		c, err := s.next(t.Context(), b)
		require.True(t, err == nil && c != nil && c.record.Order == "c", "the candidate", c, err, "want the event with key c")
	}
}
