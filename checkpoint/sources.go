package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
	"ndrbridge/transform"
)

// Commit is what a source writes in one transaction: events, and the position that covers
// them.
type Commit struct {
	Source Source
	// Expect is the position that the caller believes to be current, nil if there is none yet.
	Expect []byte
	// Position is the new position, in the source's own encoding. Never empty.
	Position []byte
	// Events are appended to the journal in this order.
	Events []transform.Event
	// Remember sets remembered entries, by key.
	Remember []Entry
	// ForgetBefore lets the store forget entries whose At is lower, a bounded number with each
	// commit. 0 forgets nothing.
	ForgetBefore int64
	// Dead holds objects that could not be made into events. Older dead letters give way to
	// them (see Limits).
	Dead []DeadLetter
	// NoWait lets the events use half of the space that the journal reserves for the bridge's
	// own events (see Store.HasSpace), and makes the commit fail with ErrFull without it,
	// instead of waiting. It is meant for small events that others wait for. The other half is
	// left to Store.Finish.
	NoWait bool
}

// Position returns the last committed position, nil if there is none.
func (s *Store) Position(ctx context.Context, source Source) (position []byte, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		position = bytes.Clone(tx.Bucket(positionsBucket).Get([]byte(source.String())))
		return nil
	})
	return position, wrapf(err, "position of %s", source)
}

// Commit writes c, all of it or nothing. While the journal has no space (see Limits), it
// waits until ctx is done, unless c.NoWait is set; a commit without events needs no space.
// It returns ErrFenced if the position is not c.Expect.
func (s *Store) Commit(ctx context.Context, c Commit) error {
	err := c.validate()
	if err == nil {
		err = s.do(ctx, c.change())
	}
	return wrapf(err, "commit of %s", c.Source)
}

// validate rejects commits that cannot be stored.
func (c *Commit) validate() error {
	if c.Source.Appliance == "" || c.Source.Stream == "" {
		return errors.New("the source has no name")
	}
	if len(c.Position) == 0 {
		return errors.New("the position is empty")
	}
	for _, e := range c.Events {
		if len(e.Structured()) == 0 {
			return errors.New("an event was not made by transform.New")
		}
	}
	if err := validateEntries(c.Remember); err != nil {
		return err
	}
	return validateDead(c.Dead)
}

// maxKey is the longest key: it leaves space for the layout's prefix.
const maxKey = bolt.MaxKeySize - 8

func (c *Commit) change() change { return change{check: c.check, write: c.write, last: true} }

func (c *Commit) check(r *writeRound) error {
	position := r.tx.Bucket(positionsBucket).Get([]byte(c.Source.String()))
	if !bytes.Equal(position, c.Expect) {
		return ErrFenced
	}
	if len(c.Events) == 0 {
		return nil
	}
	var reserve int64
	if c.NoWait {
		reserve = commitReserveOf(r.limits.MaxBytes)
	}
	has, err := r.journal.hasSpace(r.tx.Tx, r.configured, r.limits, reserve)
	switch {
	case err != nil || has:
		return err
	case c.NoWait:
		return ErrFull
	}
	return errNoSpace
}

// write puts the position into the same transaction as its events: it is never ahead of
// them.
func (c *Commit) write(r *writeRound) error {
	r.changed = true
	name := []byte(c.Source.String())
	if err := r.append(c.Events); err != nil {
		return err
	}
	r.tx.Table(positionsBucket).Put(name, c.Position)
	if len(c.Remember) > 0 || c.ForgetBefore > 0 {
		if err := remember(r.tx, name, c.Remember, c.ForgetBefore, nil); err != nil {
			return err
		}
	}
	if err := putDead(r.tx, SourceOwner(c.Source), c.Dead); err != nil || len(c.Dead) == 0 {
		return err
	}
	return r.boundSourceDead()
}

// ForgetAppliance drops the positions of an appliance's streams and what its sources and
// the sinks remember about it, so that another appliance can take its name. What the
// journal and the dead letters hold of it stays, and so does the position of the events
// about it. found is false if there was nothing to drop. It returns an error while commands
// for it are pending. It needs memory for the keys that it drops.
func (s *Store) ForgetAppliance(ctx context.Context, appliance string) (found bool, err error) {
	var dropped bool // found is set once the change is done
	err = s.do(ctx, change{
		check: func(r *writeRound) error {
			if pending := inside(r.tx.Tx, waitingBucket, []byte(appliance)); pending != nil {
				if id, _ := pending.Cursor().First(); id != nil {
					return errors.New("ticket commands for it are pending: drop them first (ndrbridge tickets drop), or let them be carried out")
				}
			}
			return nil
		},
		write: func(r *writeRound) error {
			dropped = r.forgetAppliance(appliance)
			r.changed = r.changed || dropped
			return nil
		},
	})
	if err != nil {
		return false, fmt.Errorf("forget appliance %s: %w", appliance, err)
	}
	return dropped, nil
}

func (r *writeRound) forgetAppliance(appliance string) (found bool) {
	prefix := []byte(appliance + "/")
	positions := r.tx.Table(positionsBucket)
	events := Source{Appliance: appliance, Stream: transform.StreamEvents}.String()
	for _, name := range keysWith(positions.Bucket, prefix) {
		if string(name) != events {
			positions.Delete(name)
			found = true
		}
	}
	for _, outer := range [][]byte{knownBucket, forgetBucket} {
		table := r.tx.Table(outer)
		for _, name := range append(keysWith(table.Bucket, prefix), expectedName(appliance)) {
			if table.Inside(name) != nil {
				table.DeleteBucket(name)
				found = true
			}
		}
	}
	// The sinks' memories of it.
	known := r.tx.Table(knownBucket)
	for _, name := range keysWith(known.Bucket, memoryName("")) {
		memory, forget := known.Inside(name), r.tx.Table(forgetBucket).Inside(name)
		for _, key := range keysWith(memory.Bucket, []byte(sourceKeyPrefix+appliance+"/")) {
			drop(memory, forget, key)
			found = true
		}
	}
	return found
}

// keysWith returns the keys of a bucket that begin with prefix.
func keysWith(b *bolt.Bucket, prefix []byte) (keys [][]byte) {
	for key := range walk(b, prefix) {
		if !bytes.HasPrefix(key, prefix) {
			break
		}
		keys = append(keys, bytes.Clone(key))
	}
	return keys
}

// Recall returns the value remembered for each key, in the order of keys; nil for a key
// that is unknown or forgotten. The caller owns the result.
func (s *Store) Recall(ctx context.Context, source Source, keys []string) ([][]byte, error) {
	values, err := s.recall(ctx, []byte(source.String()), keys)
	return values, wrapf(err, "recall of %s", source)
}

// Remembered returns the entries of a source whose keys come after a key, in the order of keys,
// at most limit of them; "" comes before all keys. The caller owns the result.
func (s *Store) Remembered(ctx context.Context, source Source, after string, limit int) ([]Entry, error) {
	entries, err := s.remembered(ctx, []byte(source.String()), after, limit)
	return entries, wrapf(err, "remembered entries of %s", source)
}

// RememberedBySink is Remembered for a sink.
func (s *Store) RememberedBySink(ctx context.Context, sink, after string, limit int) ([]Entry, error) {
	entries, err := s.remembered(ctx, memoryName(sink), after, limit)
	return entries, wrapf(err, "remembered entries of %s", sink)
}

// remembered returns the entries under a name.
func (s *Store) remembered(ctx context.Context, name []byte, after string, limit int) (entries []Entry, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		for key, value := range walk(inside(tx, knownBucket, name), behind(after)) {
			if len(entries) == limit {
				break
			}
			if len(value) > 8 {
				entries = append(entries, Entry{Key: string(key), Value: bytes.Clone(value[8:]), At: atOf(value)})
			}
		}
		return nil
	})
	return entries, err
}

// sourceKeyPrefix is the prefix of the events' attribute source.
const sourceKeyPrefix = "ndrbridge://"

// isKnown reports whether a key consists of an event's source, a slash and the key of an
// entry of that source.
func isKnown(tx *boltfile.Tx, key []byte) bool {
	rest, is := bytes.CutPrefix(key, []byte(sourceKeyPrefix))
	end := bytes.LastIndexByte(rest, '/')
	if !is || end < 0 {
		return false
	}
	known := tx.Table(knownBucket).Inside(rest[:end])
	return known != nil && known.Get(rest[end+1:]) != nil
}

// memoryName returns the name of the known bucket that holds a sink's memory. No source's
// name begins like it, since appliances have names.
func memoryName(sink string) []byte { return []byte("/" + SinkOwner(sink)) }

// RecallSink returns a sink's remembered values for the keys, in their order; nil for an
// unknown key. The caller owns the result.
func (s *Store) RecallSink(ctx context.Context, sink string, keys []string) ([][]byte, error) {
	values, err := s.recall(ctx, memoryName(sink), keys)
	return values, wrapf(err, "recall of %s", sink)
}

// recall returns the known values under a name.
func (s *Store) recall(ctx context.Context, name []byte, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	err := s.view(ctx, func(tx *bolt.Tx) error {
		known := inside(tx, knownBucket, name)
		if known == nil {
			return nil
		}
		cursor := known.Cursor()
		for i, key := range keys {
			if found, value := cursor.Seek([]byte(key)); string(found) == key && len(value) > 8 {
				values[i] = bytes.Clone(value[8:])
			}
		}
		return nil
	})
	return values, err
}

// RememberSink sets remembered entries of a sink, by key, and appends events about them to the
// journal, all of them or none. It forgets
// entries whose At is lower than forgetBefore, a bounded number with each call; 0: none.
// An entry is kept if its key is an event's source, a slash and the key of an entry that
// this source still remembers. It returns an error if the sink was never configured.
//
// The events are appended even if the journal is full, because the sink may be what fills it:
// they are few and small beside what it has to deliver.
func (s *Store) RememberSink(ctx context.Context, sink string, entries []Entry, forgetBefore int64, events ...transform.Event) error {
	err := validateEntries(entries)
	if err == nil {
		err = s.do(ctx, change{check: hasCursor(sink), write: func(r *writeRound) error {
			r.changed = true
			if err := r.append(events); err != nil {
				return err
			}
			isKnown := func(key []byte) bool { return isKnown(r.tx, key) }
			return remember(r.tx, memoryName(sink), entries, forgetBefore, isKnown)
		}})
	}
	return wrapf(err, "remember for %s", sink)
}

// RefreshSink sets the At of a sink's entries under the keys to at, if it is lower than
// due. It writes nothing if no entry is due.
func (s *Store) RefreshSink(ctx context.Context, sink string, keys []string, at, due int64) error {
	err := s.do(ctx, change{write: func(r *writeRound) error {
		known := r.tx.Table(knownBucket).Inside(memoryName(sink))
		if known == nil {
			return nil
		}
		var entries []Entry
		for _, key := range keys {
			if value := known.Get([]byte(key)); len(value) > 8 && atOf(value) < due {
				entries = append(entries, Entry{Key: key, Value: bytes.Clone(value[8:]), At: at})
			}
		}
		if len(entries) == 0 {
			return nil
		}
		r.changed = true
		return remember(r.tx, memoryName(sink), entries, 0, nil)
	}})
	return wrapf(err, "refresh for %s", sink)
}

// forgetLeast is the minimum number of entries that a commit may forget. It may always
// forget twice as many as it remembers, so that forgetting keeps up.
const forgetLeast = 64

// keepDuplicate is how long a kept entry stays before it is checked again, in
// milliseconds, the unit of At in sinks' memories.
const keepDuplicate = 24 * 60 * 60 * 1000

// atOf returns the At at the beginning of a known value, or of a key in the bucket forget.
func atOf(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

// validateEntries rejects entries that cannot be stored.
func validateEntries(entries []Entry) error {
	for _, e := range entries {
		if e.Key == "" || len(e.Key) > maxKey || len(e.Value) == 0 || e.At < 0 {
			return fmt.Errorf("the entry %.40q (value of %d bytes, At %d) cannot be kept", e.Key, len(e.Value), e.At)
		}
	}
	return nil
}

// remember stores known entries under a name, and forgets some old ones, except the keys
// for which keep returns true; nil keeps none.
func remember(tx *boltfile.Tx, name []byte, entries []Entry, forgetBefore int64, keep func(key []byte) bool) error {
	known, err := tx.Table(knownBucket).Make(name)
	if err != nil {
		return fmt.Errorf("known: %w", err)
	}
	forget, err := tx.Table(forgetBucket).Make(name)
	if err != nil {
		return fmt.Errorf("forget: %w", err)
	}

	size := 0
	for _, e := range entries {
		size += 8 + len(e.Value)
	}
	values := make([]byte, 0, size) // bbolt refers to them until the transaction ends
	var queued []byte
	for _, e := range entries {
		start := len(values)
		values = binary.BigEndian.AppendUint64(values, uint64(e.At))
		values = append(values, e.Value...)
		old := known.Put([]byte(e.Key), values[start:len(values):len(values)])
		if len(old) >= 8 && atOf(old) != e.At {
			queued = append(append(queued[:0], old[:8]...), e.Key...)
			forget.Delete(queued)
		}
		queued = binary.BigEndian.AppendUint64(queued[:0], uint64(e.At))
		queued = append(queued, e.Key...)
		forget.Put(queued, []byte{})
	}
	return forgetOld(known, forget, forgetBefore, max(forgetLeast, 2*len(entries)), keep)
}

// drop forgets the entry with a key, if there is one.
func drop(known, forget *boltfile.Table, key []byte) {
	if value := known.Get(key); len(value) >= 8 {
		forget.Delete(slices.Concat(value[:8], key))
		known.Delete(key)
	}
}

// forgetOld forgets at most limit entries older than before. Entries for which keep returns
// true are checked again when before is keepDuplicate later.
func forgetOld(known, forget *boltfile.Table, before int64, limit int, keep func(key []byte) bool) error {
	var old [][]byte
	for queued := range walk(forget.Bucket, nil) {
		if len(queued) <= 8 {
			return fmt.Errorf("forget: a key of %d bytes", len(queued))
		}
		if len(old) >= limit || atOf(queued) >= before {
			break
		}
		old = append(old, bytes.Clone(queued))
	}
	for _, queued := range old {
		key := queued[8:]
		if value := known.Get(key); len(value) >= 8 && atOf(value) < before {
			if keep != nil && keep(key) {
				at := encode(uint64(before + keepDuplicate))
				known.Put(key, append(at, value[8:]...))
				forget.Put(slices.Concat(at[:8], key), []byte{})
			} else {
				known.Delete(key)
			}
		}
		forget.Delete(queued)
	}
	return nil
}
