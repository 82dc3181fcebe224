package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// forgetLeast is the minimum number of entries that a commit may forget. It may always
// forget twice as many as it remembers, so that forgetting keeps up.
const forgetLeast = 64

// keepDuplicate is how long a kept entry stays before it is checked again, in
// milliseconds, the unit of At in sinks' memories.
const keepDuplicate = 24 * 60 * 60 * 1000

// Position implements Sources.
func (s *Store) Position(ctx context.Context, source Source) (position []byte, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		position = bytes.Clone(tx.Bucket(positionsBucket).Get([]byte(source.String())))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("position of %s: %w", source, err)
	}
	return position, nil
}

// Recall implements Sources.
func (s *Store) Recall(ctx context.Context, source Source, keys []string) ([][]byte, error) {
	values, err := s.recall(ctx, []byte(source.String()), keys)
	if err != nil {
		return nil, fmt.Errorf("recall of %s: %w", source, err)
	}
	return values, nil
}

// recall returns the known values under a name.
func (s *Store) recall(ctx context.Context, name []byte, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	err := s.view(ctx, func(tx *bolt.Tx) error {
		known := tx.Bucket(knownBucket).Bucket(name)
		if known == nil {
			return nil
		}
		size := 0
		cursor := known.Cursor()
		for i, key := range keys {
			if found, value := cursor.Seek([]byte(key)); string(found) == key && len(value) > 8 {
				values[i] = value[8:]
				size += len(values[i])
			}
		}
		own(values, size)
		return nil
	})
	return values, err
}

// Known implements Sources.
func (s *Store) Known(ctx context.Context, source Source, after Entry, limit int) ([]Entry, error) {
	var entries []Entry
	err := s.view(ctx, func(tx *bolt.Tx) error {
		known := tx.Bucket(knownBucket).Bucket([]byte(source.String()))
		if known == nil {
			return nil
		}
		// The bucket forget has the requested order.
		cursor := tx.Bucket(forgetBucket).Bucket([]byte(source.String())).Cursor()
		begin := binary.BigEndian.AppendUint64(nil, uint64(max(after.At, 0)))
		begin = append(begin, after.Key...)
		for queued, _ := cursor.Seek(begin); queued != nil && len(entries) < limit; queued, _ = cursor.Next() {
			if len(queued) <= 8 {
				return fmt.Errorf("forget: a key of %d bytes", len(queued))
			}
			at, key := queued[:8], queued[8:]
			value := known.Get(key)
			if bytes.Equal(queued, begin) || len(value) <= 8 || !bytes.Equal(value[:8], at) {
				continue // remembered again since, under another At
			}
			entries = append(entries, Entry{
				Key: string(key), Value: bytes.Clone(value[8:]), At: int64(binary.BigEndian.Uint64(at)),
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("known of %s: %w", source, err)
	}
	return entries, nil
}

// own replaces values of a transaction with copies of them, size bytes in all, in one
// allocation.
func own(values [][]byte, size int) {
	all := make([]byte, 0, size)
	for i, b := range values {
		if b != nil {
			start := len(all)
			all = append(all, b...)
			values[i] = all[start:len(all):len(all)]
		}
	}
}

// Commit implements Sources.
func (s *Store) Commit(ctx context.Context, c Commit) error {
	err := c.validate()
	if err == nil {
		if len(c.Events) > 0 {
			s.waitForSinks(ctx)
		}
		err = s.do(ctx, &commit{c})
	}
	if err != nil {
		return fmt.Errorf("commit of %s: %w", c.Source, err)
	}
	return nil
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

// maxKey is the longest key: it leaves space for what the layout puts before it.
const maxKey = bolt.MaxKeySize - 8

// commit is the change that Commit makes.
type commit struct{ Commit }

func (c *commit) check(r *writeRound) error {
	position := r.tx.Bucket(positionsBucket).Get([]byte(c.Source.String()))
	if !bytes.Equal(position, c.Expect) {
		return ErrFenced
	}
	if len(c.Events) == 0 {
		return nil
	}
	var reserve int64
	if c.Reserve {
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
func (c *commit) write(r *writeRound) error {
	r.changed = true
	name := []byte(c.Source.String())
	if err := r.append(c.Events); err != nil {
		return err
	}
	if err := r.tx.table(positionsBucket).put(name, c.Position); err != nil {
		return fmt.Errorf("position: %w", err)
	}
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

// remember stores known entries under a name, and forgets some old ones, except the keys
// for which keep returns true; nil keeps none.
func remember(tx *writeTx, name []byte, entries []Entry, forgetBefore int64, keep func(key []byte) bool) error {
	known, err := tx.table(knownBucket).make(name)
	if err != nil {
		return fmt.Errorf("known: %w", err)
	}
	forget, err := tx.table(forgetBucket).make(name)
	if err != nil {
		return fmt.Errorf("forget: %w", err)
	}
	forget.FillPercent = appendFill
	known.FillPercent = knownFill

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
		if err := known.put([]byte(e.Key), values[start:len(values):len(values)]); err != nil {
			return fmt.Errorf("known: %w", err)
		}
		queued = binary.BigEndian.AppendUint64(queued[:0], uint64(e.At))
		queued = append(queued, e.Key...)
		if err := forget.put(queued, []byte{}); err != nil {
			return fmt.Errorf("forget: %w", err)
		}
	}
	return forgetOld(known, forget, forgetBefore, max(forgetLeast, 2*len(entries)), keep)
}

// forgetOld takes at most limit entries older than before from the queue, and forgets
// those that were not remembered again since. Entries for which keep returns true are
// checked again when before is keepDuplicate later.
func forgetOld(known, forget *table, before int64, limit int, keep func(key []byte) bool) error {
	var old [][]byte
	cursor := forget.Cursor()
	for queued, _ := cursor.First(); queued != nil && len(old) < limit; queued, _ = cursor.Next() {
		if len(queued) <= 8 {
			return fmt.Errorf("forget: a key of %d bytes", len(queued))
		}
		if int64(binary.BigEndian.Uint64(queued)) >= before {
			break
		}
		old = append(old, bytes.Clone(queued))
	}
	for _, queued := range old {
		key := queued[8:]
		if value := known.Get(key); len(value) >= 8 && int64(binary.BigEndian.Uint64(value)) < before {
			var err error
			if keep != nil && keep(key) {
				at := appendUint64(uint64(before + keepDuplicate))
				err = errors.Join(known.put(key, append(at, value[8:]...)), forget.put(slices.Concat(at[:8], key), []byte{}))
			} else {
				err = known.remove(key)
			}
			if err != nil {
				return fmt.Errorf("known: %w", err)
			}
		}
		if err := forget.remove(queued); err != nil {
			return fmt.Errorf("forget: %w", err)
		}
	}
	return nil
}
