package checkpoint

import (
	"bytes"
	"container/heap"
	"fmt"
	"strings"
	"time"
)

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
	dead := r.tx.table(deadBucket).inside([]byte(o))
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
		if err := dead.remove(d.key); err != nil {
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

func (h deadByAge) Len() int      { return len(h) }
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
