package boltfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

const metaName = "meta"

var (
	// MetaBucket is the bucket whose entries are not part of the sum: it holds the sum.
	MetaBucket = []byte(metaName)
	sumKey     = []byte("sum")
)

// Sum returns the sum stored in the file; ok is false if there is none.
func Sum(tx *bolt.Tx) (sum uint64, ok bool) {
	value := tx.Bucket(MetaBucket).Get(sumKey)
	if len(value) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(value), true
}

// Tx is a write transaction that keeps the sum up to date, if entries are changed through
// its tables only. PutSum must be its last change: it returns the error of any.
type Tx struct {
	*bolt.Tx
	scheme   Scheme
	sum      uint64
	err      error     // the first of a change
	recorder *Recorder // nil: changes are not recorded
}

// NewTx begins with the sum stored in the file.
func NewTx(tx *bolt.Tx, s Scheme) *Tx {
	t := &Tx{Tx: tx, scheme: s}
	t.sum, _ = Sum(tx)
	return t
}

// Err returns the error of the first change that failed.
func (tx *Tx) Err() error { return tx.err }

// PutSum writes the sum. If a change has failed, it returns that error.
func (tx *Tx) PutSum() error {
	if tx.err != nil {
		return tx.err
	}
	if err := tx.Tx.Bucket(MetaBucket).Put(sumKey, binary.BigEndian.AppendUint64(nil, tx.sum)); err != nil {
		return fmt.Errorf("sum of the entries: %w", err)
	}
	return nil
}

// SumUp computes the sum of all entries of a file again, and writes it.
func SumUp(tx *bolt.Tx) error {
	t := &Tx{Tx: tx}
	err := tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
		if bytes.Equal(name, MetaBucket) {
			return nil
		}
		if err := t.Table(name).sumUp(); err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.PutSum()
}

// Table returns a bucket of the file, which must exist.
func (tx *Tx) Table(name []byte) *Table {
	return tx.table(&Table{Bucket: tx.Bucket(name), tx: tx, name: name, path: pathSum(0, name)}, name)
}

// table sets the fill ratio of a table that is in, or is, a bucket of the file.
func (tx *Tx) table(t *Table, root []byte) *Table {
	if tx.scheme.Fill == nil || t.Bucket == nil {
		return t
	}
	if fill := tx.scheme.Fill(root); fill != 0 {
		t.FillPercent = fill
	}
	return t
}

// Table is a bucket in a Tx. It and its entries must only be changed by the methods here,
// which keep the sum and record the changes. Tx.Err returns the errors of methods without
// one.
type Table struct {
	*bolt.Bucket
	tx    *Tx
	outer []byte // the name of the bucket that it is in; nil: it is the file's
	name  []byte
	path  uint32
	seek  *bolt.Cursor // reused by old
}

// old returns the current value of a key, nil if there is none.
func (t *Table) old(key []byte) []byte {
	if t.seek == nil {
		t.seek = t.Cursor()
	}
	if found, value := t.seek.Seek(key); bytes.Equal(found, key) {
		return value
	}
	return nil
}

// Inside returns a nested bucket, nil if there is none.
func (t *Table) Inside(name []byte) *Table {
	if inner := t.Bucket.Bucket(name); inner != nil {
		return t.tx.table(&Table{Bucket: inner, tx: t.tx, outer: t.name, name: name, path: pathSum(t.path, name)}, t.name)
	}
	return nil
}

// Make returns a bucket nested in a bucket of the file, and creates it if there is none.
func (t *Table) Make(name []byte) (*Table, error) {
	if inner := t.Inside(name); inner != nil {
		return inner, nil
	}
	if t.outer != nil {
		return nil, fmt.Errorf("bucket %.40q cannot be made in %.40q, which is in a bucket itself", name, t.name)
	}
	if _, err := t.CreateBucket(name); err != nil {
		return nil, err
	}
	inner := t.Inside(name)
	inner.recorder()
	return inner, nil
}

// SetSequence sets the bucket's own sequence, which is not part of the sum.
func (t *Table) SetSequence(n uint64) error {
	t.recorder().addSequence(n)
	return t.Bucket.SetSequence(n)
}

// Put sets an entry. value must not be nil, nor change before the transaction ends. It
// returns the value that the entry had, nil if there was none, which is valid until the next
// change.
func (t *Table) Put(key, value []byte) (old []byte) {
	if old = t.old(key); old != nil {
		t.tx.sum -= t.sumOf(key, old)
	}
	t.Add(key, value)
	return old
}

// Add is Put for a new key.
func (t *Table) Add(key, value []byte) {
	t.recorder().add(changePut, key, value)
	t.tx.sum += t.sumOf(key, value)
	t.keep("write", key, t.Bucket.Put(key, value))
}

// Delete deletes an entry, if it exists.
func (t *Table) Delete(key []byte) {
	if old := t.old(key); old != nil {
		t.recorder().add(changeDelete, key)
		t.tx.sum -= t.sumOf(key, old)
		t.keep("delete", key, t.Bucket.Delete(key))
	}
}

// keep keeps the error of a change to a key.
func (t *Table) keep(what string, key []byte, err error) {
	if err != nil && t.tx.err == nil {
		t.tx.err = fmt.Errorf("%s %.40q in the bucket %.40q: %w", what, key, t.name, err)
	}
}

// DeleteBucket deletes a nested bucket, if it exists. It must not have nested buckets
// itself.
func (t *Table) DeleteBucket(name []byte) {
	inner := t.Inside(name)
	if inner == nil {
		return
	}
	t.recorder().add(changeDrop, name)
	err := inner.ForEach(func(key, value []byte) error {
		t.tx.sum -= inner.sumOf(key, value)
		return nil
	})
	if err == nil {
		err = t.Bucket.DeleteBucket(name)
	}
	t.keep("delete", name, err)
}

// sumUp adds the entries of a bucket, and of those nested in it, to the sum.
func (t *Table) sumUp() error {
	return t.ForEach(func(key, value []byte) error {
		if value == nil {
			return t.Inside(key).sumUp()
		}
		t.tx.sum += t.sumOf(key, value)
		return nil
	})
}

// sumOf returns the sum of one entry of the table, 0 in MetaBucket.
func (t *Table) sumOf(key, value []byte) uint64 {
	if t.outer == nil && string(t.name) == metaName {
		return 0
	}
	return entrySum(t.path, key, value)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pathSum returns the sum of a nested bucket's path, given that of the outer one, 0 for
// the file.
func pathSum(outer uint32, name []byte) uint32 {
	return crc32.Update(crc32.Update(outer, castagnoli, []byte{'/'}), castagnoli, name)
}

// entrySum returns the sum of one entry of the bucket with the path.
func entrySum(path uint32, key, value []byte) uint64 {
	sum := crc32.Update(crc32.Update(path, castagnoli, key), castagnoli, value)
	return (uint64(sum)<<32 | uint64(len(key))) * 0x9e3779b97f4a7c15
}
