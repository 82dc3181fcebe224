package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Scheme is what has to be known about the contents of a file to apply records to it, and to
// make records of it.
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
func (tx *Tx) Apply(s Scheme, record []byte) error {
	if len(record) < recordHeader {
		return fmt.Errorf("%w: it has %d bytes", ErrRecord, len(record))
	}
	if format, layout := record[0], record[1]; format > RecordFormat || layout > s.Layout {
		return fmt.Errorf("%w (format %d, layout %d; this version reads up to %d and %d)", ErrNewer, format, layout, RecordFormat, s.Layout)
	}
	var t *Table
	for rest := (changes{record[recordHeader:]}); len(rest.rest) > 0; {
		c, err := rest.next()
		if err != nil {
			return err
		}
		if c.kind == changeTable {
			t, err = tx.named(s, c.key, c.value)
		} else {
			err = t.apply(s, c)
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
func (tx *Tx) named(s Scheme, root, name []byte) (*Table, error) {
	if tx.Bucket(root) == nil {
		return nil, fmt.Errorf("there is no bucket %.40q", root)
	}
	t := tx.Table(root)
	if len(name) > 0 {
		if bytes.Equal(root, MetaBucket) {
			return nil, fmt.Errorf("the bucket %.40q has none in it", root)
		}
		var err error
		if t, err = t.Make(name); err != nil {
			return nil, err
		}
	}
	if fill := s.Fill(root); fill != 0 {
		t.FillPercent = fill
	}
	return t, nil
}

// apply makes a change to the table that was named last; nil: none was.
func (t *Table) apply(s Scheme, c recorded) error {
	if t == nil {
		return errors.New("a change without a bucket")
	}
	if meta := t.outer == nil && bytes.Equal(t.name, MetaBucket); meta {
		carried := slices.ContainsFunc(s.Meta, func(key []byte) bool { return bytes.Equal(key, c.key) })
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
