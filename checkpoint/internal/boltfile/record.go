package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

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
func (tx *Tx) Record(r *Recorder, layout byte) {
	r.begin(layout)
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
