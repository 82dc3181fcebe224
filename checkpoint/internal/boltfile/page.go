package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	bolt "go.etcd.io/bbolt"
)

// The layout of bbolt's pages: a header, a table of elements, and the data that the
// elements point to. Integers have the machine's byte order.
const (
	pageHeader  = 16 // id 8, flags 2, count 2, overflow 4
	pageElement = 16 // branch: pos 4, ksize 4, page 8; leaf: flags 4, pos 4, ksize 4, vsize 4
	bucketValue = 16 // root page 8, sequence 8

	branchPage    = 0x01
	leafPage      = 0x02
	freelistPage  = 0x10
	bucketElement = 0x01

	// Offsets of a meta page's fields, after its header.
	metaFreelist = 32
	metaTxid     = 48
	metaSize     = 64
	noFreelist   = ^uint64(0)
	manyFree     = 0xffff // the count of a freelist whose first element holds the count

	maxDepth = 64 // far more than a file of any size needs
)

var native = binary.NativeEndian

// page is a page, or the page of a small bucket inside a value. bytes is its beginning,
// size its length.
type page struct {
	flags, count uint16
	size         uint64
	bytes        []byte
	at           int64
	file         io.ReaderAt // nil if bytes is the whole page
	bucket       string
	path         uint32
	walk         *pageWalk
}

// slice returns bytes of the page. Bytes beyond its beginning are read from the file.
func (p page) slice(from, n uint64) ([]byte, error) {
	if from > p.size || n > p.size-from {
		return nil, errors.New("it points outside itself")
	}
	if from+n <= uint64(len(p.bytes)) {
		return p.bytes[from : from+n], nil
	}
	b := make([]byte, n)
	_, err := p.file.ReadAt(b, p.at+int64(from))
	return b, err
}

// elements checks a page's elements and returns the pages that they refer to.
func (p page) elements(low, high []byte) ([]below, error) {
	// bbolt leaves no branch with fewer than two pages below it, and a leaf without
	// elements only if a bucket is empty; it relies on that when it writes.
	switch {
	case p.flags == branchPage && p.count >= 2:
	case p.flags == leafPage && (p.count > 0 || low == nil):
	default:
		return nil, fmt.Errorf("its kind is %#x, with %d elements", p.flags, p.count)
	}
	table, err := p.slice(pageHeader, uint64(p.count)*pageElement)
	if err != nil {
		return nil, err
	}
	var found []below
	var previous []byte
	for i := range int(p.count) {
		e := table[i*pageElement:][:pageElement]
		key, end, err := p.key(i, e)
		switch {
		case err != nil:
			return nil, err
		case i == 0 && low != nil && !bytes.Equal(key, low):
			return nil, errors.New("its first key differs from the one in the page above")
		case i > 0 && bytes.Compare(previous, key) >= 0, high != nil && bytes.Compare(key, high) >= 0:
			return nil, fmt.Errorf("element %d is out of order", i)
		}
		previous = key
		if p.flags == branchPage {
			key = bytes.Clone(key)
			if i > 0 {
				found[i-1].high = key
			}
			found = append(found, below{page: native.Uint64(e[8:]), low: key, high: high, bucket: p.bucket, path: p.path})
			continue
		}
		inside, err := p.value(e, key, end)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if inside.page != 0 {
			found = append(found, inside)
		}
	}
	return found, nil
}

// key returns the key of element i, e, and where it ends.
func (p page) key(i int, e []byte) (key []byte, end uint64, err error) {
	pos, size := native.Uint32(e), native.Uint32(e[4:])
	if p.flags == leafPage {
		pos, size = native.Uint32(e[4:]), native.Uint32(e[8:])
	}
	if size == 0 || size > bolt.MaxKeySize {
		return nil, 0, fmt.Errorf("element %d has a key of %d bytes", i, size)
	}
	start := pageHeader + uint64(i)*pageElement + uint64(pos)
	if key, err = p.slice(start, uint64(size)); err != nil {
		return nil, 0, fmt.Errorf("element %d: %w", i, err)
	}
	return key, start + uint64(size), nil
}

// value checks the value of an element of a leaf, which begins at from. If it is a bucket
// with pages of its own, value returns the reference to them.
func (p page) value(e, key []byte, from uint64) (below, error) {
	flags, size := native.Uint32(e), uint64(native.Uint32(e[12:]))
	if flags&bucketElement == 0 {
		return below{}, p.entry(key, from, size)
	}
	inside := below{bucket: p.bucket + "/" + string(key), path: pathSum(p.path, key)}
	var err error
	inside.page, err = p.nested(inside, from, size)
	return inside, err
}

// entry adds an entry, whose value begins at from, to the sum, and passes it to the visitor.
func (p page) entry(key []byte, from, size uint64) error {
	if from > p.size || size > p.size-from {
		return errors.New("its value is outside the page")
	}
	if p.walk.visit == nil || p.bucket == "/"+metaName {
		return nil
	}
	value, err := p.slice(from, size)
	if err != nil {
		return err
	}
	p.walk.sum += entrySum(p.path, key, value)
	p.walk.visit(p.bucket, key, size)
	return nil
}

// nested checks a bucket's value, and returns the bucket's root page, or 0 if the bucket
// is stored in the value itself.
func (p page) nested(b below, from, size uint64) (root uint64, err error) {
	if from > p.size || size > p.size-from {
		return 0, errors.New("its value is outside the page")
	}
	if p.file == nil || size < bucketValue || size > uint64(len(p.bytes)) {
		return 0, fmt.Errorf("a bucket of %d bytes", size)
	}
	value, err := p.slice(from, size)
	if err != nil {
		return 0, err
	}
	if root = native.Uint64(value); root != 0 {
		return root, nil
	}
	value = value[bucketValue:]
	if len(value) < pageHeader {
		return 0, errors.New("a bucket without its page")
	}
	inline := page{
		flags: native.Uint16(value[8:]), count: native.Uint16(value[10:]), size: uint64(len(value)), bytes: value,
		bucket: b.bucket, path: b.path, walk: p.walk,
	}
	if inline.flags != leafPage {
		return 0, fmt.Errorf("a bucket's page of kind %#x", inline.flags)
	}
	_, err = inline.elements(nil, nil)
	return 0, err
}
