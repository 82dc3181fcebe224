package checkpoint

import (
	"context"
	"fmt"
)

// Memories is the part of a store in which sinks keep what they made at their
// targets, such as the message or the ticket that a detection has. Its methods
// are safe for concurrent use.
//
// What a sink remembers is forgotten and renamed with it.
type Memories interface {
	// RecallSink returns what a sink remembers under the keys, in their order; nil
	// where it remembers nothing. The result is the caller's.
	RecallSink(ctx context.Context, sink string, keys []string) ([][]byte, error)
	// RememberSink sets what a sink remembers, by key, all of it or nothing. It
	// forgets entries whose At is lower than forgetBefore, a bounded number with
	// each call; 0: none. A sink that was never configured is an error.
	RememberSink(ctx context.Context, sink string, entries []Entry, forgetBefore int64) error
}

// memoryName is where what a sink remembers lies among what is known. No source
// has a name that begins so, since appliances have names.
func memoryName(sink string) []byte { return []byte("/" + SinkOwner(sink)) }

// RecallSink implements Memories.
func (s *Store) RecallSink(ctx context.Context, sink string, keys []string) ([][]byte, error) {
	values, err := s.recall(ctx, memoryName(sink), keys)
	if err != nil {
		return nil, fmt.Errorf("recall of %s: %w", sink, err)
	}
	return values, nil
}

// RememberSink implements Memories.
func (s *Store) RememberSink(ctx context.Context, sink string, entries []Entry, forgetBefore int64) error {
	err := validateEntries(entries)
	if err == nil {
		err = s.do(ctx, &remembering{sink, entries, forgetBefore})
	}
	if err != nil {
		return fmt.Errorf("remember for %s: %w", sink, err)
	}
	return nil
}

// remembering is the change that RememberSink makes.
type remembering struct {
	sink         string
	entries      []Entry
	forgetBefore int64
}

func (m *remembering) check(r *round) error {
	_, err := cursorOf(r.tx.Tx, m.sink)
	return err
}

func (m *remembering) write(r *round) error {
	r.changed = true
	return remember(r.tx, memoryName(m.sink), m.entries, m.forgetBefore)
}

// validateEntries refuses what no store could keep.
func validateEntries(entries []Entry) error {
	for _, e := range entries {
		if e.Key == "" || len(e.Key) > maxKey || len(e.Value) == 0 || e.At < 0 {
			return fmt.Errorf("the entry %.40q (value of %d bytes, At %d) cannot be kept", e.Key, len(e.Value), e.At)
		}
	}
	return nil
}
