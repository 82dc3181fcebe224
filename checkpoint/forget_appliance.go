package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/transform"
)

// ForgetAppliance implements Operations. It needs memory for the keys that it drops.
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
	positions := r.tx.table(positionsBucket)
	events := Source{Appliance: f.name, Stream: transform.StreamEvents}.String()
	for _, name := range keysWith(positions.Bucket, prefix) {
		if string(name) == events {
			continue
		}
		if err := positions.remove(name); err != nil {
			return fmt.Errorf("position %s: %w", name, err)
		}
		f.found = true
	}
	for _, outer := range [][]byte{knownBucket, forgetBucket} {
		table := r.tx.table(outer)
		for _, name := range append(keysWith(table.Bucket, prefix), expectedName(f.name)) {
			if table.inside(name) == nil {
				continue
			}
			if err := table.removeAll(name); err != nil {
				return fmt.Errorf("%s of %s: %w", outer, name, err)
			}
			f.found = true
		}
	}
	// The sinks' memories of it. Their entries in the bucket forget are dropped when
	// their turn comes.
	known := r.tx.table(knownBucket)
	of := []byte(sourceKeyPrefix + f.name + "/")
	for _, name := range keysWith(known.Bucket, memoryName("")) {
		memory := known.inside(name)
		for _, key := range keysWith(memory.Bucket, of) {
			if err := memory.remove(key); err != nil {
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
