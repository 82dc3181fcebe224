package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
	"ndrbridge/transform"
)

// Forget drops the cursor, the redelivery queue and the dead letters of a sink. It returns
// an error if the sink is configured, or never was.
func (s *Store) Forget(ctx context.Context, sink string) error {
	if err := s.do(ctx, forgetting(sink)); err != nil {
		return fmt.Errorf("forget %s: %w", sink, err)
	}
	return nil
}

// forgetting is the change that Forget makes.
type forgetting string

func (f forgetting) check(r *writeRound) error {
	if r.configured[string(f)] {
		return errors.New("the sink is configured; take it out of the configuration first")
	}
	_, err := cursorOf(r.tx.Tx, string(f))
	return err
}

func (f forgetting) write(r *writeRound) error {
	r.changed = true
	return forgetSink(r.tx, string(f))
}

// part is a part of what the file holds of a sink: a value, or a bucket.
type part struct {
	outer *boltfile.Table
	key   []byte
}

func partsOf(tx *boltfile.Tx, sink string) []part {
	name, owner := []byte(sink), []byte(SinkOwner(sink))
	return []part{
		{tx.Table(cursorsBucket), name},
		{tx.Table(deadBucket), owner},
		{tx.Table(deadSizeBucket), owner},
		{tx.Table(requeuedBucket), name},
		{tx.Table(replayedBucket), name},
		{tx.Table(countsBucket), name},
		{tx.Table(pausedBucket), name},
		{tx.Table(knownBucket), memoryName(sink)},
		{tx.Table(forgetBucket), memoryName(sink)},
	}
}

func forgetSink(tx *boltfile.Tx, sink string) error {
	for _, p := range partsOf(tx, sink) {
		err := p.outer.DeleteBucket(p.key)
		if err == nil {
			err = p.outer.Delete(p.key)
		}
		if err != nil {
			return fmt.Errorf("sink %s: %w", sink, err)
		}
	}
	return nil
}

// Rename moves everything that the state holds of a sink to another name, in one
// transaction. It returns an error if either is configured, if from never was, or if the
// state holds anything under the name to. It needs memory for a copy of the sink's dead
// letters and requeued events.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	var err error
	if to == "" || len(to) > maxKey {
		err = fmt.Errorf("a name of %d bytes", len(to))
	}
	if err == nil {
		err = s.do(ctx, &renaming{from, to})
	}
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	return nil
}

// renaming is the change that Rename makes.
type renaming struct{ from, to string }

func (n *renaming) check(r *writeRound) error {
	for _, sink := range []string{n.from, n.to} {
		if r.configured[sink] {
			return fmt.Errorf("the sink %s is configured; take it out of the configuration first", sink)
		}
	}
	for _, p := range partsOf(r.tx, n.to) {
		if p.outer.Get(p.key) != nil || p.outer.Inside(p.key) != nil {
			return fmt.Errorf("the state already knows a sink %s", n.to)
		}
	}
	_, err := cursorOf(r.tx.Tx, n.from)
	return err
}

func (n *renaming) write(r *writeRound) error {
	r.changed = true
	to := partsOf(r.tx, n.to)
	for i, from := range partsOf(r.tx, n.from) {
		if err := from.copy(to[i]); err != nil {
			return fmt.Errorf("what belongs to %s: %w", n.from, err)
		}
	}
	return forgetSink(r.tx, n.from)
}

// copy copies a part, if it exists.
func (p part) copy(to part) error {
	if value := p.outer.Get(p.key); value != nil {
		return to.outer.Add(to.key, bytes.Clone(value))
	}
	from := p.outer.Inside(p.key)
	if from == nil {
		return nil
	}
	copied, err := to.outer.Make(to.key)
	if err != nil {
		return err
	}
	if err := copied.SetSequence(from.Sequence()); err != nil {
		return err
	}
	copied.FillPercent = appendFill
	return from.ForEach(func(key, value []byte) error { return copied.Add(key, bytes.Clone(value)) })
}

// ForgetAppliance drops the positions of an appliance's streams and what its sources and
// the sinks remember about it, so that another appliance can take its name. What the
// journal and the dead letters hold of it stays, and so does the position of the events
// about it. found is false if there was nothing to drop. It returns an error while commands
// for it are pending. It needs memory for the keys that it drops.
func (s *Store) ForgetAppliance(ctx context.Context, appliance string) (found bool, err error) {
	f := &forgettingAppliance{name: appliance}
	if err := s.do(ctx, f); err != nil {
		return false, fmt.Errorf("forget appliance %s: %w", appliance, err)
	}
	return f.found, nil
}

// forgettingAppliance is the change that ForgetAppliance makes.
type forgettingAppliance struct {
	name  string
	found bool
}

func (f *forgettingAppliance) check(r *writeRound) error {
	if of := r.tx.Bucket(waitingBucket).Bucket([]byte(f.name)); of != nil {
		if id, _ := of.Cursor().First(); id != nil {
			return errors.New("ticket commands for it are pending: drop them first (ndrbridge tickets drop), or let them be carried out")
		}
	}
	return nil
}

func (f *forgettingAppliance) write(r *writeRound) error {
	f.found = false
	prefix := []byte(f.name + "/")
	positions := r.tx.Table(positionsBucket)
	events := Source{Appliance: f.name, Stream: transform.StreamEvents}.String()
	for _, name := range keysWith(positions.Bucket, prefix) {
		if string(name) == events {
			continue
		}
		if err := positions.Delete(name); err != nil {
			return fmt.Errorf("position %s: %w", name, err)
		}
		f.found = true
	}
	for _, outer := range [][]byte{knownBucket, forgetBucket} {
		table := r.tx.Table(outer)
		for _, name := range append(keysWith(table.Bucket, prefix), expectedName(f.name)) {
			if table.Inside(name) == nil {
				continue
			}
			if err := table.DeleteBucket(name); err != nil {
				return fmt.Errorf("%s of %s: %w", outer, name, err)
			}
			f.found = true
		}
	}
	// The sinks' memories of it. Their entries in the bucket forget are dropped when
	// their turn comes.
	known := r.tx.Table(knownBucket)
	of := []byte(sourceKeyPrefix + f.name + "/")
	for _, name := range keysWith(known.Bucket, memoryName("")) {
		memory := known.Inside(name)
		for _, key := range keysWith(memory.Bucket, of) {
			if err := memory.Delete(key); err != nil {
				return fmt.Errorf("memory of %s: %w", name, err)
			}
			f.found = true
		}
	}
	r.changed = r.changed || f.found
	return nil
}

// keysWith returns the keys of a bucket that begin with prefix.
func keysWith(b *bolt.Bucket, prefix []byte) (keys [][]byte) {
	cursor := b.Cursor()
	for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = cursor.Next() {
		keys = append(keys, bytes.Clone(key))
	}
	return keys
}
