package checkpoint

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// These bound what one transaction takes out of the dead letters, so that other
// operations need not wait long.
const (
	takeDeadLetters = 1000
	takeBytes       = 4 << 20
)

// DropDead drops an owner's dead letters with the given keys, or all of them if keys is
// nil. It ignores unknown keys. n is how many were dropped, even if err is not nil: many
// are dropped in several transactions.
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
	dead := r.tx.Table(deadBucket).Inside([]byte(t.owner))
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
		if err := dead.Delete([]byte(key)); err != nil {
			return fmt.Errorf("dead letter %.40q: %w", key, err)
		}
		t.taken++
	}
	if t.taken == 0 {
		return nil
	}
	r.changed = true
	return putDeadRest(r.tx, t.owner, size)
}

// putDeadRest writes the counts of an owner some of whose dead letters were taken. It leaves
// nothing behind if there is nothing more to count.
func putDeadRest(tx *boltfile.Tx, o Owner, size DeadStats) error {
	if size.Count > 0 {
		return size.put(tx, o)
	}
	if err := tx.Table(deadBucket).DeleteBucket([]byte(o)); err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	if size.Dropped > 0 {
		return size.put(tx, o)
	}
	if err := tx.Table(deadSizeBucket).Delete([]byte(o)); err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	return nil
}

// boundSourceDead drops dead letters if the sources exceed their share: the oldest ones of
// the source with the most, and slightly more than necessary, so that many new ones do not
// each cost a search.
func (r *writeRound) boundSourceDead() error {
	share := r.limits.DeadShare(len(r.configured))
	if share == 0 {
		return nil
	}
	sizes := make(map[Owner]DeadStats)
	total := int64(0)
	cursor := r.tx.Bucket(deadSizeBucket).Cursor()
	for key, value := cursor.Seek([]byte(sourceOwners)); strings.HasPrefix(string(key), sourceOwners); key, value = cursor.Next() {
		size := decodeDeadStats(value)
		sizes[Owner(key)] = size
		total += size.taken()
	}
	if total <= share {
		return nil
	}
	target := share - share/16
	least := target / int64(len(sizes)) // bytes that each source may keep
	for total > target {
		var most Owner
		for o, size := range sizes {
			if most == "" || size.taken() > sizes[most].taken() || size.taken() == sizes[most].taken() && o < most {
				most = o
			}
		}
		size := sizes[most]
		dropped, err := r.dropOldest(most, &size, min(total-target, size.taken()-least))
		if err != nil {
			return err
		}
		total -= dropped
		sizes[most] = size
	}
	return nil
}

// taken returns how many bytes of the sources' share a source's dead letters take.
func (d DeadStats) taken() int64 { return d.Bytes + int64(d.Count)*DeadOverhead }

// dropOldest drops as many of an owner's oldest dead letters as make up need bytes, and
// returns how many bytes they took. It updates size.
func (r *writeRound) dropOldest(o Owner, size *DeadStats, need int64) (dropped int64, err error) {
	dead := r.tx.Table(deadBucket).Inside([]byte(o))
	if dead == nil {
		return 0, fmt.Errorf("%w: dead letters of %s are counted, but there are none", ErrDamaged, o)
	}
	var oldest deadByAge
	cursor := dead.Cursor()
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		head, content, err := splitDead(key, value)
		if err != nil {
			return 0, err
		}
		if dropped >= need && !oldest.younger(head.Time, key) {
			continue
		}
		body := int64(len(content))
		heap.Push(&oldest, agedDead{head.Time, bytes.Clone(key), body})
		dropped += body + DeadOverhead
		for dropped-oldest[0].body-DeadOverhead >= need {
			dropped -= heap.Pop(&oldest).(agedDead).body + DeadOverhead
		}
	}
	for _, d := range oldest {
		if err := dead.Delete(d.key); err != nil {
			return 0, fmt.Errorf("dead letter %.40q: %w", d.key, err)
		}
		size.Count--
		size.Bytes -= d.body
		size.Dropped++
	}
	return dropped, size.put(r.tx, o)
}

// agedDead is a dead letter that may be dropped.
type agedDead struct {
	at   time.Time
	key  []byte
	body int64
}

// deadByAge is a heap with the youngest dead letter on top.
type deadByAge []agedDead

func (h deadByAge) Len() int { return len(h) }

func (h deadByAge) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h deadByAge) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.After(h[j].at)
	}
	return bytes.Compare(h[i].key, h[j].key) > 0
}

// younger reports whether the heap's youngest dead letter is younger than another one.
func (h deadByAge) younger(at time.Time, key []byte) bool {
	return len(h) > 0 && (h[0].at.After(at) || h[0].at.Equal(at) && bytes.Compare(h[0].key, key) > 0)
}

// Push implements heap.Interface.
func (h *deadByAge) Push(x any) { *h = append(*h, x.(agedDead)) }

// Pop implements heap.Interface.
func (h *deadByAge) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
