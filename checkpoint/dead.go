package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// Dead returns an owner's dead letters in the order of their keys, after a key ("": from
// the first), at most limit.
func (s *Store) Dead(ctx context.Context, o Owner, after string, limit int) ([]DeadLetter, error) {
	return s.deadAfter(ctx, o, after, limit, decodeDead)
}

// DeadHeads is Dead without the bodies, which are not read either: a page of many large
// dead letters costs little.
func (s *Store) DeadHeads(ctx context.Context, o Owner, after string, limit int) ([]DeadLetter, error) {
	return s.deadAfter(ctx, o, after, limit, func(key, value []byte) (DeadLetter, error) {
		d, err := splitDead(key, value)
		d.Body = nil
		return d, err
	})
}

// deadAfter returns what decode makes of an owner's dead letters after a key, at most limit.
func (s *Store) deadAfter(ctx context.Context, o Owner, after string, limit int, decode func(key, value []byte) (DeadLetter, error)) (deadLetters []DeadLetter, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		for key, value := range walk(inside(tx, deadBucket, []byte(o)), behind(after)) {
			if len(deadLetters) >= limit {
				break
			}
			deadLetter, err := decode(key, value)
			if err != nil {
				return err
			}
			deadLetters = append(deadLetters, deadLetter)
		}
		return nil
	})
	return deadLetters, wrapf(err, "dead letters of %s", o)
}

// DeadLetterOf returns the dead letter of an owner with a key; found is false if there is
// none.
func (s *Store) DeadLetterOf(ctx context.Context, o Owner, key string) (deadLetter DeadLetter, found bool, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		if value := get(inside(tx, deadBucket, []byte(o)), []byte(key)); value != nil {
			deadLetter, err = decodeDead([]byte(key), value)
			found = err == nil
		}
		return err
	})
	return deadLetter, found, wrapf(err, "dead letter %.40q of %s", key, o)
}

// encodeDead returns the stored form of a dead letter: a line of JSON without its key and
// body, then its body.
func encodeDead(d DeadLetter) ([]byte, error) {
	d.Time = d.Time.UTC()
	head, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	// JSON has no line break of its own, so the first one ends the head.
	return append(append(head, '\n'), d.Body...), nil
}

// decodeDead decodes a dead letter. The result shares no memory with value.
func decodeDead(key, value []byte) (DeadLetter, error) {
	d, err := splitDead(key, value)
	d.Body = bytes.Clone(d.Body)
	return d, err
}

// splitDead is decodeDead with a body that is a part of value.
func splitDead(key, value []byte) (d DeadLetter, err error) {
	head, body, ok := bytes.Cut(value, []byte{'\n'})
	if !ok {
		return d, fmt.Errorf("%w: dead letter %.40q: no head", ErrDamaged, key)
	}
	if err := json.Unmarshal(head, &d); err != nil {
		return d, fmt.Errorf("%w: dead letter %.40q: %w", ErrDamaged, key, err)
	}
	d.Key, d.Body = string(key), body
	return d, nil
}

func deadBody(value []byte) int64 {
	_, body, _ := bytes.Cut(value, []byte{'\n'})
	return int64(len(body))
}

func validateDead(deadLetters []DeadLetter) error {
	for _, d := range deadLetters {
		if d.Key == "" || len(d.Key) > maxKey {
			return fmt.Errorf("a dead letter with a key of %d bytes cannot be kept", len(d.Key))
		}
		if y := d.Time.UTC().Year(); y < 0 || y > 9999 {
			return errors.New("a dead letter's time cannot be encoded")
		}
	}
	return nil
}

// putDead writes an owner's dead letters and counts them.
func putDead(tx *boltfile.Tx, o Owner, deadLetters []DeadLetter) error {
	if len(deadLetters) == 0 {
		return nil
	}
	dead, err := tx.Table(deadBucket).Make([]byte(o))
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	stats := deadStatsOf(tx.Tx, o)
	for _, d := range deadLetters {
		if old := dead.Get([]byte(d.Key)); old != nil {
			stats.Count--
			stats.Bytes -= deadBody(old)
		}
		value, err := encodeDead(d)
		if err != nil {
			return fmt.Errorf("dead letter %.40q: %w", d.Key, err)
		}
		dead.Put([]byte(d.Key), value)
		stats.Count++
		stats.Bytes += int64(len(d.Body))
	}
	stats.put(tx, o)
	return nil
}

// deadSpace returns ErrDeadFull if a sink's dead letters would exceed its share.
func (r *writeRound) deadSpace(sink string, deadLetters []DeadLetter) error {
	share := r.limits.DeadShare(len(r.configured))
	if share == 0 || len(deadLetters) == 0 {
		return nil
	}
	o := SinkOwner(sink)
	now := deadStatsOf(r.tx.Tx, o).Bytes
	dead := inside(r.tx.Tx, deadBucket, []byte(o))
	then, added := now, make(map[string]int64, len(deadLetters))
	for _, d := range deadLetters {
		old, twice := added[d.Key]
		if !twice && dead != nil {
			old = deadBody(dead.Get([]byte(d.Key)))
		}
		added[d.Key] = int64(len(d.Body))
		then += int64(len(d.Body)) - old
	}
	if then > now && then > share {
		return fmt.Errorf("%w: %d bytes of them, and %d more, exceed the sink's share of %d", ErrDeadFull, now, then-now, share)
	}
	return nil
}

func deadStatsOf(tx *bolt.Tx, o Owner) DeadStats {
	return decodeDeadStats(valueOf(tx, deadSizeBucket, string(o)))
}

func decodeDeadStats(value []byte) DeadStats {
	n := decode(value)
	return DeadStats{Count: n[0], Bytes: int64(n[1]), Dropped: n[2]}
}

// put writes the counts of an owner after its dead letters were changed. It leaves nothing
// behind if there is nothing to count.
func (d DeadStats) put(tx *boltfile.Tx, o Owner) {
	if d.Count == 0 {
		tx.Table(deadBucket).DeleteBucket([]byte(o))
	}
	sizes := tx.Table(deadSizeBucket)
	if value := d.encode(); value != nil {
		sizes.Put([]byte(o), value)
	} else {
		sizes.Delete([]byte(o))
	}
}

// encode returns the stored form of the counts; nil if there is nothing to count.
func (d DeadStats) encode() []byte {
	switch {
	case d.Dropped > 0:
		return encode(d.Count, uint64(d.Bytes), d.Dropped)
	case d.Count > 0:
		return encode(d.Count, uint64(d.Bytes))
	}
	return nil
}

// These bound what one transaction removes of the dead letters or the commands, so that
// other operations need not wait long.
const (
	removeEntries = 1000
	removeBytes   = 4 << 20
)

// DropDead drops an owner's dead letters with the given keys, or all of them if keys is
// nil. It ignores unknown keys. n is how many were dropped, even if err is not nil: many
// are dropped in several transactions.
func (s *Store) DropDead(ctx context.Context, o Owner, keys []string) (n int, err error) {
	n, err = s.removeDead(ctx, o, keys, func(*writeRound, string, []byte) (bool, error) { return true, nil })
	return n, wrapf(err, "drop dead letters of %s", o)
}

// removeFunc is called for each dead letter that may be removed, with its stored value, and
// reports whether to remove it.
type removeFunc func(r *writeRound, key string, value []byte) (bool, error)

// removeDead removes the dead letters of an owner for which is returns true, out of
// keys, or out of all that there are now if keys is nil.
func (s *Store) removeDead(ctx context.Context, o Owner, keys []string, is removeFunc) (n int, err error) {
	if keys == nil {
		err = s.view(ctx, func(tx *bolt.Tx) error {
			for key := range walk(inside(tx, deadBucket, []byte(o)), nil) {
				keys = append(keys, string(key))
			}
			return nil
		})
	}
	for err == nil && len(keys) > 0 {
		var seen, removed int
		err = s.do(ctx, change{write: func(r *writeRound) (err error) {
			seen, removed, err = r.removeDead(o, keys, is)
			return err
		}})
		if err == nil {
			n, keys = n+removed, keys[seen:]
		}
	}
	return n, err
}

// removeDead removes the first of some dead letters. It returns how many keys it checked, at
// least one, and how many it removed.
func (r *writeRound) removeDead(o Owner, keys []string, is removeFunc) (seen, removed int, err error) {
	dead := r.tx.Table(deadBucket).Inside([]byte(o))
	if dead == nil {
		return len(keys), 0, nil
	}
	stats := deadStatsOf(r.tx.Tx, o)
	for read := 0; seen < len(keys) && seen < removeEntries && read <= removeBytes; seen++ {
		key := keys[seen]
		value := dead.Get([]byte(key))
		if value == nil {
			continue
		}
		read += len(value)
		if remove, err := is(r, key, value); err != nil {
			return seen, removed, err
		} else if !remove {
			continue
		}
		stats.Count--
		stats.Bytes -= deadBody(value)
		dead.Delete([]byte(key))
		removed++
	}
	if removed > 0 {
		r.changed = true
		stats.put(r.tx, o)
	}
	return seen, removed, nil
}

// boundSourceDead drops dead letters if the sources exceed their share: the oldest ones of
// the source with the most, and slightly more than necessary, so that many new ones do not
// each cost a search.
func (r *writeRound) boundSourceDead() error {
	share := r.limits.DeadShare(len(r.configured))
	if share == 0 {
		return nil
	}
	var owners []Owner
	stats := make(map[Owner]DeadStats)
	total := int64(0)
	for key, value := range walk(r.tx.Bucket(deadSizeBucket), []byte(sourceOwners)) {
		if !strings.HasPrefix(string(key), sourceOwners) {
			break
		}
		o := Owner(key)
		owners, stats[o] = append(owners, o), decodeDeadStats(value)
		total += stats[o].space()
	}
	if total <= share {
		return nil
	}
	target := share - share/16
	least := target / int64(len(owners)) // bytes that each source may keep
	for total > target {
		most := slices.MaxFunc(owners, func(a, b Owner) int { return cmp.Compare(stats[a].space(), stats[b].space()) })
		left, err := r.dropOldest(most, stats[most], min(total-target, stats[most].space()-least))
		if err != nil {
			return err
		}
		total -= stats[most].space() - left.space()
		stats[most] = left
	}
	return nil
}

// deadOverhead is how many bytes a source's dead letter takes of the sources' share in
// addition to its body.
const deadOverhead = 512

// space returns how many bytes of the sources' share a source's dead letters take.
func (d DeadStats) space() int64 { return d.Bytes + int64(d.Count)*deadOverhead }

// dropOldest drops as many of an owner's oldest dead letters as make up need bytes, and
// returns the new counts, given the old ones.
func (r *writeRound) dropOldest(o Owner, stats DeadStats, need int64) (left DeadStats, err error) {
	dead := r.tx.Table(deadBucket).Inside([]byte(o))
	if dead == nil {
		return stats, fmt.Errorf("%w: dead letters of %s are counted, but there are none", ErrDamaged, o)
	}
	type aged struct {
		at   time.Time
		key  string
		body int64
	}
	all := make([]aged, 0, stats.Count) // as many as the share has space for
	err = dead.ForEach(func(key, value []byte) error {
		d, err := splitDead(key, value)
		all = append(all, aged{d.Time, d.Key, int64(len(d.Body))})
		return err
	})
	if err != nil {
		return stats, err
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.key, b.key)) })
	left = stats
	for _, d := range all {
		if stats.space()-left.space() >= need {
			break
		}
		dead.Delete([]byte(d.key))
		left.Count--
		left.Bytes -= d.body
		left.Dropped++
	}
	left.put(r.tx, o)
	return left, nil
}
