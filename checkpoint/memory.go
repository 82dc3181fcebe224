package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Memories is the part of a store in which sinks keep what they created at their targets,
// such as the message or the ticket of a detection. Its methods are safe for concurrent
// use.
//
// A sink's memory is forgotten and renamed with the sink.
type Memories interface {
	// RecallSink returns a sink's remembered values for the keys, in their order; nil for an
	// unknown key. The caller owns the result.
	RecallSink(ctx context.Context, sink string, keys []string) ([][]byte, error)
	// RememberSink sets remembered entries of a sink, by key, all of them or none. It forgets
	// entries whose At is lower than forgetBefore, a bounded number with each call; 0: none.
	// An entry under the SourceKey of an object that a source still knows is kept. It returns
	// an error if the sink was never configured.
	RememberSink(ctx context.Context, sink string, entries []Entry, forgetBefore int64) error
	// RefreshSink sets the At of a sink's entries under the keys to at, if it is lower than
	// due. It writes nothing if no entry is due.
	RefreshSink(ctx context.Context, sink string, keys []string, at, due int64) error
}

// SourceKey returns the key under which a sink remembers something about an object that a
// source knows by id.
func SourceKey(source Source, id string) string {
	return sourceKeyPrefix + source.String() + "/" + id
}

// sourceKeyPrefix is the prefix of the events' attribute source.
const sourceKeyPrefix = "ndrbridge://"

// isKnown reports whether a key is the SourceKey of an object that its source knows.
func isKnown(tx *writeTx, key []byte) bool {
	rest, is := bytes.CutPrefix(key, []byte(sourceKeyPrefix))
	end := bytes.LastIndexByte(rest, '/')
	if !is || end < 0 {
		return false
	}
	known := tx.table(knownBucket).inside(rest[:end])
	return known != nil && known.Get(rest[end+1:]) != nil
}

// memoryName returns the name of the known bucket that holds a sink's memory. No source's
// name begins like it, since appliances have names.
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

// RefreshSink implements Memories.
func (s *Store) RefreshSink(ctx context.Context, sink string, keys []string, at, due int64) error {
	refresh := &refreshing{sink: sink, at: at, due: due}
	err := s.view(ctx, func(tx *bolt.Tx) error {
		known := tx.Bucket(knownBucket).Bucket(memoryName(sink))
		for _, key := range keys {
			if known != nil && refresh.isDue(known.Get([]byte(key))) {
				refresh.keys = append(refresh.keys, key)
			}
		}
		return nil
	})
	if err == nil && len(refresh.keys) > 0 {
		err = s.do(ctx, refresh)
	}
	if err != nil {
		return fmt.Errorf("refresh for %s: %w", sink, err)
	}
	return nil
}

// refreshing is the change that RefreshSink makes.
type refreshing struct {
	sink    string
	keys    []string
	at, due int64
}

// isDue reports whether a known value has to be refreshed.
func (f *refreshing) isDue(value []byte) bool {
	return len(value) > 8 && int64(binary.BigEndian.Uint64(value)) < f.due
}

func (f *refreshing) check(*writeRound) error { return nil }

func (f *refreshing) write(r *writeRound) error {
	known := r.tx.table(knownBucket).inside(memoryName(f.sink))
	if known == nil {
		return nil
	}
	var entries []Entry
	for _, key := range f.keys {
		if value := known.Get([]byte(key)); f.isDue(value) {
			entries = append(entries, Entry{Key: key, Value: bytes.Clone(value[8:]), At: f.at})
		}
	}
	if len(entries) == 0 {
		return nil
	}
	r.changed = true
	return remember(r.tx, memoryName(f.sink), entries, 0, nil)
}

// remembering is the change that RememberSink makes.
type remembering struct {
	sink         string
	entries      []Entry
	forgetBefore int64
}

func (m *remembering) check(r *writeRound) error {
	_, err := cursorOf(r.tx.Tx, m.sink)
	return err
}

func (m *remembering) write(r *writeRound) error {
	r.changed = true
	isKnown := func(key []byte) bool { return isKnown(r.tx, key) }
	return remember(r.tx, memoryName(m.sink), m.entries, m.forgetBefore, isKnown)
}

// validateEntries rejects entries that cannot be stored.
func validateEntries(entries []Entry) error {
	for _, e := range entries {
		if e.Key == "" || len(e.Key) > maxKey || len(e.Value) == 0 || e.At < 0 {
			return fmt.Errorf("the entry %.40q (value of %d bytes, At %d) cannot be kept", e.Key, len(e.Value), e.At)
		}
	}
	return nil
}
