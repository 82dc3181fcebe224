package boltfile

import (
	"bytes"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Builder makes records that fill a file in which all buckets are empty. Each is a little
// larger than PieceBytes, or holds a single entry that is larger.
type Builder struct {
	Scheme     Scheme
	PieceBytes int
	// Yield receives the records. Each is valid during the call only.
	Yield func(record []byte) error

	recorder Recorder
	sum      uint64
}

// Put adds an entry, whose key must be new, to the bucket name in the bucket root of the file,
// or to root itself if name is nil.
func (b *Builder) Put(root, name, key, value []byte) error {
	b.in(root, name)
	b.recorder.add(changePut, key, value)
	if !bytes.Equal(root, MetaBucket) {
		path := pathSum(0, root)
		if len(name) > 0 {
			path = pathSum(path, name)
		}
		b.sum += entrySum(path, key, value)
	}
	if len(b.recorder.record) < b.PieceBytes {
		return nil
	}
	return b.yield()
}

// Sequence creates a bucket, named as by Put, if there is none, and sets its own sequence.
func (b *Builder) Sequence(root, name []byte, n uint64) {
	b.in(root, name)
	if n != 0 {
		b.recorder.addSequence(n)
	}
}

// Close yields the last record.
func (b *Builder) Close() error {
	if len(b.recorder.record) == 0 {
		b.recorder.begin(b.Scheme.Layout)
	}
	return b.yield()
}

func (b *Builder) in(root, name []byte) {
	if len(b.recorder.record) == 0 {
		b.recorder.begin(b.Scheme.Layout)
	}
	b.recorder.in(root, name)
}

func (b *Builder) yield() error {
	err := b.Yield(b.recorder.end(b.sum))
	b.recorder.record = b.recorder.record[:0]
	return err
}

// Dump adds all that a file holds, and yields the last record. It returns ErrUnreadable if the
// entries do not have the sum that the file holds.
func (b *Builder) Dump(tx *bolt.Tx) error {
	for _, key := range b.Scheme.Meta {
		if value := tx.Bucket(MetaBucket).Get(key); value != nil {
			if err := b.Put(MetaBucket, nil, key, value); err != nil {
				return err
			}
		}
	}
	err := tx.ForEach(func(root []byte, outer *bolt.Bucket) error {
		if bytes.Equal(root, MetaBucket) {
			return nil
		}
		b.Sequence(root, nil, outer.Sequence())
		return outer.ForEach(func(key, value []byte) error {
			if value != nil {
				return b.Put(root, nil, key, value)
			}
			inner := outer.Bucket(key)
			b.Sequence(root, key, inner.Sequence())
			return inner.ForEach(func(k, v []byte) error { return b.Put(root, key, k, v) })
		})
	})
	if err != nil {
		return err
	}
	if sum, there := Sum(tx); there && sum != b.sum {
		return fmt.Errorf("%w: the sum of the entries is %x, not %x", ErrUnreadable, b.sum, sum)
	}
	return b.Close()
}
