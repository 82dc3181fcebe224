package checkpoint

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// These bound what one transaction takes out of the dead letters, so that other
// operations need not wait long.
const (
	takeDeadLetters = 1000
	takeBytes       = 4 << 20
)

// DeadLetterOf implements Operations.
func (s *Store) DeadLetterOf(ctx context.Context, o Owner, key string) (deadLetter DeadLetter, found bool, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		dead := tx.Bucket(deadBucket).Bucket([]byte(o))
		if dead == nil {
			return nil
		}
		value := dead.Get([]byte(key))
		if value == nil {
			return nil
		}
		deadLetter, err = decodeDead([]byte(key), value)
		found = err == nil
		return err
	})
	if err != nil {
		return DeadLetter{}, false, fmt.Errorf("dead letter %.40q of %s: %w", key, o, err)
	}
	return deadLetter, found, nil
}

// DropDead implements Operations.
func (s *Store) DropDead(ctx context.Context, o Owner, keys []string) (n int, err error) {
	n, err = s.takeDead(ctx, o, keys, func(*writeRound, string, []byte) (bool, error) { return true, nil })
	if err != nil {
		return n, fmt.Errorf("drop dead letters of %s: %w", o, err)
	}
	return n, nil
}

// takeDead removes from an owner's dead letters those for which take returns true, out of
// keys, or out of all that there are now if keys is nil.
func (s *Store) takeDead(ctx context.Context, o Owner, keys []string, take takeFunc) (n int, err error) {
	if keys == nil {
		if keys, err = s.deadKeys(ctx, o); err != nil {
			return 0, err
		}
	}
	for len(keys) > 0 {
		t := &taking{owner: o, keys: keys, take: take}
		if err := s.do(ctx, t); err != nil {
			return n, err
		}
		n += t.taken
		keys = keys[t.seen:]
	}
	return n, nil
}

// deadKeys returns the keys of an owner's dead letters, in order.
func (s *Store) deadKeys(ctx context.Context, o Owner) (keys []string, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		dead := tx.Bucket(deadBucket).Bucket([]byte(o))
		if dead == nil {
			return nil
		}
		return dead.ForEach(func(key, _ []byte) error {
			keys = append(keys, string(key))
			return nil
		})
	})
	return keys, err
}

// takeFunc is called for each dead letter that may be taken, with its stored value, and
// reports whether to take it.
type takeFunc func(r *writeRound, key string, value []byte) (bool, error)

// taking is the change that takes the first of some dead letters from an owner.
type taking struct {
	owner Owner
	keys  []string
	take  takeFunc

	seen  int // number of keys checked: at least one
	taken int
}

func (t *taking) check(*writeRound) error { return nil }

func (t *taking) write(r *writeRound) error {
	t.seen, t.taken = len(t.keys), 0
	dead := r.tx.table(deadBucket).inside([]byte(t.owner))
	if dead == nil {
		return nil
	}
	size := decodeDeadStats(r.tx.Bucket(deadSizeBucket).Get([]byte(t.owner)))
	read := 0
	for i, key := range t.keys {
		if i >= takeDeadLetters || read > takeBytes {
			t.seen = i
			break
		}
		value := dead.Get([]byte(key))
		if value == nil {
			continue
		}
		read += len(value)
		taken, err := t.take(r, key, value)
		if err != nil {
			return err
		}
		if !taken {
			continue
		}
		size.Count--
		size.Bytes -= deadBody(value)
		if err := dead.remove([]byte(key)); err != nil {
			return fmt.Errorf("dead letter %.40q: %w", key, err)
		}
		t.taken++
	}
	if t.taken == 0 {
		return nil
	}
	r.changed = true
	if size.Count > 0 {
		return size.put(r.tx, t.owner)
	}
	if err := r.tx.table(deadBucket).removeAll([]byte(t.owner)); err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	if size.Dropped > 0 {
		return size.put(r.tx, t.owner)
	}
	if err := r.tx.table(deadSizeBucket).remove([]byte(t.owner)); err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	return nil
}
