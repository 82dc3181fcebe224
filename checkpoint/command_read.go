package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	bolt "go.etcd.io/bbolt"
)

// Command implements Commands.
func (s *Store) Command(ctx context.Context, id uint64) (c Command, found bool, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		commands := tx.Bucket(commandsBucket)
		if commands == nil {
			return nil
		}
		k, err := parseCommand(commands.Get(appendUint64(id)))
		if k != nil {
			c, found = k.command(id), true
		}
		return err
	})
	if err != nil {
		return Command{}, false, fmt.Errorf("command %d: %w", id, err)
	}
	return c, found, nil
}

// Commands implements Commands.
func (s *Store) Commands(ctx context.Context, f CommandFilter, after uint64, limit int) ([]Command, error) {
	var found []Command
	err := s.view(ctx, func(tx *bolt.Tx) error {
		commands := tx.Bucket(commandsBucket)
		if commands == nil {
			return nil
		}
		for key := range f.keys(tx, after) {
			if len(found) >= limit {
				break
			}
			k, err := parseCommand(commands.Get(key))
			if err != nil {
				return err
			}
			if k != nil && f.selects(k) {
				found = append(found, k.command(binary.BigEndian.Uint64(key)))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list commands: %w", err)
	}
	return found, nil
}

func (f CommandFilter) selects(k *keptCommand) bool {
	return (f.Appliance == "" || f.Appliance == k.Appliance) &&
		(f.Subject == "" || f.Subject == k.Subject) &&
		(f.State == "" || f.State == k.State)
}

// keys yields, in order, the keys of all commands with an ID above after that f may
// select, from the smallest index available.
func (f CommandFilter) keys(tx *bolt.Tx, after uint64) iter.Seq[[]byte] {
	waiting := tx.Bucket(waitingBucket)
	switch {
	case f.Subject != "":
		return keysAfter(tx.Bucket(subjectsBucket), subjectKey(f.Subject, after))
	case f.State != CommandPending:
		return keysAfter(tx.Bucket(commandsBucket), appendUint64(after))
	case f.Appliance == "":
		return keysOfAll(waiting, after)
	}
	if of := waiting.Bucket([]byte(f.Appliance)); of != nil {
		return keysAfter(of, appendUint64(after))
	}
	return func(func([]byte) bool) {}
}

// keysAfter yields the IDs at the ends of the keys of a bucket after mark, of those keys
// that differ from mark in the ID only.
func keysAfter(b *bolt.Bucket, mark []byte) iter.Seq[[]byte] {
	prefix := mark[:len(mark)-8]
	return func(yield func([]byte) bool) {
		cursor := b.Cursor()
		key, _ := cursor.Seek(mark)
		for ; key != nil && bytes.HasPrefix(key, prefix); key, _ = cursor.Next() {
			// A subject can begin with another one and a zero byte.
			if len(key) == len(mark) && !bytes.Equal(key, mark) && !yield(key[len(prefix):]) {
				return
			}
		}
	}
}

// keysOfAll yields, in order, the keys above after of all buckets in a bucket.
func keysOfAll(b *bolt.Bucket, after uint64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var cursors []*bolt.Cursor
		var heads [][]byte // nil at the end of a bucket
		mark := appendUint64(after)
		all := b.Cursor()
		for name, _ := all.First(); name != nil; name, _ = all.Next() {
			cursor := b.Bucket(name).Cursor()
			head, _ := cursor.Seek(mark)
			if bytes.Equal(head, mark) {
				head, _ = cursor.Next()
			}
			cursors, heads = append(cursors, cursor), append(heads, head)
		}
		for {
			least := -1
			for i, head := range heads {
				if head != nil && (least < 0 || bytes.Compare(head, heads[least]) < 0) {
					least = i
				}
			}
			if least < 0 || !yield(heads[least]) {
				return
			}
			heads[least], _ = cursors[least].Next()
		}
	}
}
