package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// A record holds the changes of one transaction:
//
//	format   1 byte
//	layout   1 byte, the layout of the file's contents
//	sum      8 bytes, big-endian: the sum of all entries after the transaction
//	changes  in the order in which they were made, each a letter and its operands:
//
//	    t root name    the following changes are made in the bucket name in the bucket
//	                   root, which is created if there is none; name is empty if they
//	                   are made in root itself
//	    p key value    sets an entry
//	    d key          deletes an entry
//	    s number       sets the bucket's own sequence
//	    x name         deletes the bucket with that name in this one
//
// Numbers are unsigned varints, and names, keys and values follow their length, as one.
// How full pages are, and which are free, is not recorded: it is up to each file.
const (
	changeTable    = 't'
	changePut      = 'p'
	changeDelete   = 'd'
	changeSequence = 's'
	changeDrop     = 'x'
)

// RecordFormat is the format described above.
const RecordFormat = 1

// recordHeader is how many bytes precede the changes of a record.
const recordHeader = 10

// ErrRecord is returned for a record that cannot be read, or does not lead from the file's
// contents to those whose sum it has.
var ErrRecord = errors.New("the record does not fit the state")

// ErrNewer is returned for a record that a newer version wrote.
var ErrNewer = errors.New("the state was written by a newer version")

// A Recorder makes records. A nil Recorder records no change.
type Recorder struct {
	record []byte
	// The bucket that was named last; root is nil before any.
	root, name []byte
}

// recorderBytes is how much memory a Recorder keeps from one record to the next.
const recorderBytes = 16 << 20

// Record makes tx record its changes with r, whose earlier record is overwritten.
func (tx *Tx) Record(r *Recorder) {
	r.begin(tx.scheme.Layout)
	tx.recorder = r
}

// Recorded returns the record of the changes so far, which is valid until r is used again.
func (tx *Tx) Recorded() []byte { return tx.recorder.end(tx.sum) }

// begin begins a record.
func (r *Recorder) begin(layout byte) {
	if cap(r.record) > recorderBytes {
		r.record = nil
	}
	r.record = append(r.record[:0], RecordFormat, layout)
	r.record = append(r.record, make([]byte, recordHeader-len(r.record))...)
	r.root, r.name = nil, nil
}

// end returns the record, given the sum of the entries.
func (r *Recorder) end(sum uint64) []byte {
	binary.BigEndian.PutUint64(r.record[2:], sum)
	return r.record
}

// add adds a change to the bucket that was named last.
func (r *Recorder) add(change byte, operands ...[]byte) {
	if r == nil {
		return
	}
	r.record = append(r.record, change)
	for _, operand := range operands {
		r.record = binary.AppendUvarint(r.record, uint64(len(operand)))
		r.record = append(r.record, operand...)
	}
}

func (r *Recorder) addSequence(n uint64) {
	if r != nil {
		r.record = binary.AppendUvarint(append(r.record, changeSequence), n)
	}
}

// recorder returns what records the next change to the table; nil: nothing does.
func (t *Table) recorder() *Recorder {
	r := t.tx.recorder
	switch {
	case r == nil:
	case t.outer != nil:
		r.in(t.outer, t.name)
	default:
		r.in(t.name, nil)
	}
	return r
}

// in names the bucket of the next change, unless it is that of the last one.
func (r *Recorder) in(root, name []byte) {
	if r.root != nil && bytes.Equal(r.root, root) && bytes.Equal(r.name, name) {
		return
	}
	r.add(changeTable, root, name)
	r.root, r.name = append(r.root[:0], root...), append(r.name[:0], name...)
}

// recorded is a change that was read from a record. Its slices are parts of the record.
type recorded struct {
	kind   byte
	key    []byte // a key, or the name of a bucket
	value  []byte // a value, or the name of a nested bucket
	number uint64
}

// changes reads the changes of a record. It trusts nothing in it.
type changes struct{ rest []byte }

// next returns the next change; there must be one.
func (c *changes) next() (recorded, error) {
	read := recorded{kind: c.rest[0]}
	c.rest = c.rest[1:]
	var err error
	switch read.kind {
	case changeTable:
		if read.key, err = c.key(); err == nil {
			read.value, err = c.bytes(bolt.MaxKeySize)
		}
	case changePut:
		if read.key, err = c.key(); err == nil {
			read.value, err = c.bytes(bolt.MaxValueSize)
		}
	case changeDelete, changeDrop:
		read.key, err = c.key()
	case changeSequence:
		read.number, err = c.uvarint()
	default:
		err = fmt.Errorf("%w: an unknown change %q", ErrRecord, read.kind)
	}
	return read, err
}

func (c *changes) key() ([]byte, error) {
	key, err := c.bytes(bolt.MaxKeySize)
	if err == nil && len(key) == 0 {
		err = fmt.Errorf("%w: an empty key", ErrRecord)
	}
	return key, err
}

// bytes reads an operand of at most so many bytes.
func (c *changes) bytes(most uint64) ([]byte, error) {
	n, err := c.uvarint()
	if err != nil {
		return nil, err
	}
	if n > most || n > uint64(len(c.rest)) {
		return nil, fmt.Errorf("%w: %d bytes of the %d left", ErrRecord, n, len(c.rest))
	}
	read := c.rest[:n:n]
	c.rest = c.rest[n:]
	return read, nil
}

func (c *changes) uvarint() (uint64, error) {
	n, size := binary.Uvarint(c.rest)
	if size <= 0 {
		return 0, fmt.Errorf("%w: a number cannot be read", ErrRecord)
	}
	c.rest = c.rest[size:]
	return n, nil
}

// Scheme is what has to be known about the contents of a file to change it, to apply records to
// it, and to make records of it.
type Scheme struct {
	Layout byte
	// Meta are the keys of MetaBucket that records may change. They are not part of the sum.
	Meta [][]byte
	// Fill returns the fill ratio of the pages of a bucket of the file and of the buckets in
	// it; 0: bbolt's own.
	Fill func(bucket []byte) float64
}

// Apply makes the changes of a record. It returns ErrNewer if a newer version wrote the record,
// and ErrRecord if it cannot be read or applied, or if the sum of the entries then is not the
// record's; the transaction must be rolled back then. The record must not change before the
// transaction ends.
func (tx *Tx) Apply(record []byte) error {
	if len(record) < recordHeader {
		return fmt.Errorf("%w: it has %d bytes", ErrRecord, len(record))
	}
	if format, layout := record[0], record[1]; format > RecordFormat || layout > tx.scheme.Layout {
		return fmt.Errorf("%w (format %d, layout %d; this version reads up to %d and %d)", ErrNewer, format, layout, RecordFormat, tx.scheme.Layout)
	}
	var t *Table
	for rest := (changes{record[recordHeader:]}); len(rest.rest) > 0; {
		c, err := rest.next()
		if err != nil {
			return err
		}
		if c.kind == changeTable {
			t, err = tx.named(c.key, c.value)
		} else {
			err = t.apply(c)
		}
		if err == nil {
			err = tx.err
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRecord, err)
		}
	}
	if sum := binary.BigEndian.Uint64(record[2:]); sum != tx.sum {
		return fmt.Errorf("%w: the sum of the entries is %x, not %x", ErrRecord, tx.sum, sum)
	}
	return nil
}

// named returns the table that a record names, and creates it if it is a nested one.
func (tx *Tx) named(root, name []byte) (*Table, error) {
	if tx.Bucket(root) == nil {
		return nil, fmt.Errorf("there is no bucket %.40q", root)
	}
	t := tx.Table(root)
	switch {
	case len(name) == 0:
		return t, nil
	case bytes.Equal(root, MetaBucket):
		return nil, fmt.Errorf("the bucket %.40q has none in it", root)
	}
	return t.Make(name)
}

// apply makes a change to the table that was named last; nil: none was.
func (t *Table) apply(c recorded) error {
	if t == nil {
		return errors.New("a change without a bucket")
	}
	if meta := t.outer == nil && bytes.Equal(t.name, MetaBucket); meta {
		carried := slices.ContainsFunc(t.tx.scheme.Meta, func(key []byte) bool { return bytes.Equal(key, c.key) })
		if c.kind != changePut || !carried {
			return fmt.Errorf("a change %q of %.40q in the bucket %s", c.kind, c.key, metaName)
		}
	}
	switch c.kind {
	case changePut:
		t.Put(c.key, c.value)
	case changeDelete:
		t.Delete(c.key)
	case changeSequence:
		return t.SetSequence(c.number)
	case changeDrop:
		t.DeleteBucket(c.key)
	}
	return nil
}

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
