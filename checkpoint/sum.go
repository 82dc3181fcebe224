package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// A file holds a sum over all its entries, except those of the meta bucket. bbolt
// writes new pages and reuses old ones, so a file that is copied while it is being
// written can have pages from several moments, each of them sound: only the sum reveals
// that. It is the sum of the entries' own sums, so the cost of a change is proportional
// to the change.

// writeTx is a transaction that keeps the sum up to date.
type writeTx struct {
	*bolt.Tx
	sum uint64
}

func openSum(tx *bolt.Tx) *writeTx {
	w := &writeTx{Tx: tx}
	w.sum, _ = sumOf(tx)
	return w
}

// sumOf returns the sum stored in the file. Files of version 1 have none.
func sumOf(tx *bolt.Tx) (sum uint64, there bool) {
	value := tx.Bucket(metaBucket).Get(sumKey)
	if len(value) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(value), true
}

// put writes the sum.
func (tx *writeTx) put() error {
	if err := tx.Tx.Bucket(metaBucket).Put(sumKey, appendUint64(tx.sum)); err != nil {
		return fmt.Errorf("sum of the entries: %w", err)
	}
	return nil
}

// table returns one of the layout's buckets.
func (tx *writeTx) table(name []byte) *table {
	return &table{Bucket: tx.Bucket(name), tx: tx, path: pathSum(0, name)}
}

// table is a bucket in a writeTx. Its entries must only be changed by the methods here.
type table struct {
	*bolt.Bucket
	tx   *writeTx
	path uint32
	seek *bolt.Cursor // reused by old
}

// old returns the current value of a key, nil if there is none.
func (t *table) old(key []byte) []byte {
	if t.seek == nil {
		t.seek = t.Cursor()
	}
	if found, value := t.seek.Seek(key); bytes.Equal(found, key) {
		return value
	}
	return nil
}

// inside returns a nested bucket, nil if there is none.
func (t *table) inside(name []byte) *table {
	inner := t.Bucket.Bucket(name)
	if inner == nil {
		return nil
	}
	return &table{Bucket: inner, tx: t.tx, path: pathSum(t.path, name)}
}

// make returns a nested bucket, and creates it if there is none.
func (t *table) make(name []byte) (*table, error) {
	inner, err := t.CreateBucketIfNotExists(name)
	if err != nil {
		return nil, err
	}
	return &table{Bucket: inner, tx: t.tx, path: pathSum(t.path, name)}, nil
}

// put sets an entry. value must not be nil, nor change before the transaction ends.
func (t *table) put(key, value []byte) error {
	if old := t.old(key); old != nil {
		t.tx.sum -= entrySum(t.path, key, old)
	}
	return t.add(key, value)
}

// add is put for a new key.
func (t *table) add(key, value []byte) error {
	t.tx.sum += entrySum(t.path, key, value)
	return t.Put(key, value)
}

// remove deletes an entry, if it exists.
func (t *table) remove(key []byte) error {
	old := t.old(key)
	if old == nil {
		return nil
	}
	t.tx.sum -= entrySum(t.path, key, old)
	return t.Delete(key)
}

// removeAll deletes a nested bucket, if it exists.
func (t *table) removeAll(name []byte) error {
	inner := t.inside(name)
	if inner == nil {
		return nil
	}
	err := inner.ForEach(func(key, value []byte) error {
		t.tx.sum -= entrySum(inner.path, key, value)
		return nil
	})
	if err != nil {
		return err
	}
	return t.DeleteBucket(name)
}

// sumUp adds the entries of a bucket, and of those nested in it, to the sum.
func (t *table) sumUp() error {
	return t.ForEach(func(key, value []byte) error {
		if value == nil {
			return t.inside(key).sumUp()
		}
		t.tx.sum += entrySum(t.path, key, value)
		return nil
	})
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pathSum returns the sum of a nested bucket's path, given that of the outer one, 0 for
// the file.
func pathSum(outer uint32, name []byte) uint32 {
	return crc32.Update(crc32.Update(outer, castagnoli, []byte{'/'}), castagnoli, name)
}

func entrySum(path uint32, key, value []byte) uint64 {
	sum := crc32.Update(crc32.Update(path, castagnoli, key), castagnoli, value)
	return (uint64(sum)<<32 | uint64(len(key))) * 0x9e3779b97f4a7c15
}
