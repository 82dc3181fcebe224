package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

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

// pageCheck reads every page that a bbolt file uses and checks that bbolt can read it
// without failing: each page is of the kind it claims, is used once, lies within the file,
// points within itself, and has its keys in order. It does not use bbolt's map of the
// file, and needs little memory however damaged the file is.
type pageCheck struct {
	file  *os.File
	size  uint64          // of a page
	pages uint64          // upper bound of the numbers of pages in use
	seen  []atomic.Uint64 // a bit per page
	slots chan struct{}   // a semaphore of further goroutines that may read
	// rootOnly skips the contents of the buckets, except small ones.
	rootOnly bool
}

// pageWalk is the part of a check that one goroutine does: a range of the file's entries,
// in order.
type pageWalk struct {
	*pageCheck
	journal journalCheck
	sum     uint64 // of the entries, except those of the meta bucket

	// Consecutive pages of the file, beginning with page first, and the page after the
	// last one requested.
	held        []byte
	first, next uint64
}

// readAhead is how many bytes are read at once if requested pages follow each other, as
// those of the journal mostly do.
const readAhead = 256 << 10

// openPages prepares to check the file of the read transaction tx. It finds a file that
// was cut short, and touches nothing that bbolt has mapped except its meta pages.
func openPages(file *os.File, pageSize int, tx *bolt.Tx) (*pageCheck, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if tx.Size() > info.Size() || pageSize < pageHeader+metaSize {
		return nil, fmt.Errorf("the file has %d bytes of at least %d: it was cut short", info.Size(), tx.Size())
	}
	c := &pageCheck{file: file, size: uint64(pageSize), pages: uint64(tx.Size()) / uint64(pageSize)}
	c.seen = make([]atomic.Uint64, c.pages/64+1)
	c.slots = make(chan struct{}, runtime.GOMAXPROCS(0)-1)
	return c, nil
}

func (c *pageCheck) walk() *pageWalk { return &pageWalk{pageCheck: c} }

// page returns the beginning of a page, which is valid until the next call. Failing to
// read ahead is not a fault: the pages may not be in use.
func (w *pageWalk) page(id uint64) ([]byte, error) {
	if id < w.first || id >= w.first+uint64(len(w.held))/w.size {
		pages := uint64(1)
		if id == w.next {
			pages = min(max(readAhead/w.size, 1), w.pages-id)
		}
		w.held, w.first = slices.Grow(w.held[:0], int(pages*w.size))[:pages*w.size], id
		n, err := w.file.ReadAt(w.held, int64(id*w.size))
		if w.held = w.held[:uint64(n)/w.size*w.size]; len(w.held) == 0 {
			return nil, err
		}
	}
	return w.held[(id-w.first)*w.size:][:w.size], nil
}

// all checks every page in use, and returns the sum of the entries. A fault of the journal
// alone is returned separately, since another version may have another journal.
func (c *pageCheck) all(tx *bolt.Tx) (sum uint64, journal, err error) {
	w := c.walk()
	if err := w.tree(below{page: uint64(tx.Cursor().Bucket().RootPage())}, 0); err != nil {
		return 0, nil, err
	}
	return w.sum, w.journal.err, w.freelist(tx)
}

// root checks the pages that hold the buckets' names and the small buckets, and the list
// of free pages.
func (c *pageCheck) root(tx *bolt.Tx) error {
	c.rootOnly = true
	_, _, err := c.all(tx)
	return err
}

// freelist checks that no page that bbolt would use as a free page is in use, if the file
// holds a list of free pages.
func (w *pageWalk) freelist(tx *bolt.Tx) error {
	id, err := w.freelistPage(tx)
	if err != nil || id == noFreelist {
		return err
	}
	p, err := w.read(id)
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	if p.flags != freelistPage {
		return fmt.Errorf("page %d: its kind is %#x, not a list of free pages", id, p.flags)
	}
	from, count := uint64(pageHeader), uint64(p.count)
	if count == manyFree {
		from, count = from+8, native.Uint64(p.bytes[pageHeader:])
	}
	if count > w.pages {
		return fmt.Errorf("page %d: %d free pages of %d", id, count, w.pages)
	}
	free, err := p.slice(from, count*8)
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	for previous := uint64(1); len(free) > 0; free = free[8:] {
		n := native.Uint64(free)
		if n <= previous || n >= w.pages || w.seen[n/64].Load()&(1<<(n%64)) != 0 {
			return fmt.Errorf("page %d: page %d is not free", id, n)
		}
		previous = n
	}
	return nil
}

// freelistPage returns the number of the first page of the list of free pages. bbolt takes
// it from the meta page of the transaction.
func (c *pageCheck) freelistPage(tx *bolt.Tx) (uint64, error) {
	meta := make([]byte, metaSize)
	for page := range uint64(2) {
		if _, err := c.file.ReadAt(meta, int64(page*c.size+pageHeader)); err != nil {
			return 0, err
		}
		if native.Uint64(meta[metaTxid:]) == uint64(tx.ID()) {
			return native.Uint64(meta[metaFreelist:]), nil
		}
	}
	return 0, fmt.Errorf("no meta page is of transaction %d", tx.ID())
}

// tree checks a page and all pages below it. If b.low is not nil, the first key must be
// b.low; if b.high is not nil, all keys must be below b.high.
func (w *pageWalk) tree(b below, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d: pages lie too deep", b.page)
	}
	p, err := w.read(b.page)
	if err != nil {
		return fmt.Errorf("page %d: %w", b.page, err)
	}
	// The buffer is reused below, so keep what is needed afterwards.
	p.bucket, p.path, p.walk = b.bucket, b.path, w
	found, err := p.elements(b.low, b.high)
	if err != nil {
		return fmt.Errorf("page %d: %w", b.page, err)
	}
	if w.rootOnly {
		found = slices.DeleteFunc(found, func(f below) bool { return f.bucket != b.bucket })
	}
	return w.trees(found, depth+1)
}

// trees checks consecutive pages and all pages below them. While a processor is free, the
// second half goes to another goroutine.
func (w *pageWalk) trees(found []below, depth int) error {
	for len(found) > 1 {
		select {
		case w.slots <- struct{}{}:
			half := len(found) / 2
			return w.both(found[:half], found[half:], depth)
		default:
		}
		if err := w.tree(found[0], depth); err != nil {
			return err
		}
		found = found[1:]
	}
	if len(found) == 0 {
		return nil
	}
	return w.tree(found[0], depth)
}

// both checks two halves concurrently, using a slot that the caller took. The slot is
// released when either half is done.
func (w *pageWalk) both(first, second []below, depth int) error {
	release := sync.OnceFunc(func() { <-w.slots })
	other := w.pageCheck.walk()
	ended := make(chan error, 1)
	go func() {
		err := guard(func() error { return other.trees(second, depth) })
		release()
		ended <- err
	}()
	err := w.trees(first, depth)
	release()
	if otherErr := <-ended; err == nil {
		err = otherErr
	}
	w.sum += other.sum
	w.journal.join(other.journal)
	return err
}

// below is a reference to a page from another one.
type below struct {
	page      uint64
	low, high []byte
	bucket    string // the path of its bucket; "" for the root
	path      uint32 // see pathSum
}

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

// read reads a page's beginning, and marks the page and its overflow pages as seen.
func (w *pageWalk) read(id uint64) (page, error) {
	if id < 2 || id >= w.pages {
		return page{}, fmt.Errorf("it is outside the %d pages in use", w.pages)
	}
	b, err := w.page(id)
	if err != nil {
		return page{}, err
	}
	if named := native.Uint64(b); named != id {
		return page{}, fmt.Errorf("it says that it is page %d", named)
	}
	overflow := uint64(native.Uint32(b[12:]))
	if overflow >= w.pages-id {
		return page{}, fmt.Errorf("it claims %d overflow pages", overflow)
	}
	for n := id; n <= id+overflow; n++ {
		if bit := uint64(1) << (n % 64); w.seen[n/64].Or(bit)&bit != 0 {
			return page{}, fmt.Errorf("page %d is used twice", n)
		}
	}
	w.next = id + 1 + overflow
	return page{
		flags: native.Uint16(b[8:]), count: native.Uint16(b[10:]),
		size: (1 + overflow) * w.size, bytes: b, at: int64(id * w.size), file: w.file,
	}, nil
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
		e := table[i*pageElement:]
		pos, keySize := native.Uint32(e), native.Uint32(e[4:])
		if p.flags == leafPage {
			pos, keySize = native.Uint32(e[4:]), native.Uint32(e[8:])
		}
		if keySize == 0 || keySize > bolt.MaxKeySize {
			return nil, fmt.Errorf("element %d has a key of %d bytes", i, keySize)
		}
		start := pageHeader + uint64(i)*pageElement + uint64(pos)
		key, err := p.slice(start, uint64(keySize))
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		switch {
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
		flags, size := native.Uint32(e), uint64(native.Uint32(e[12:]))
		if flags&bucketElement == 0 {
			if err := p.entry(key, start+uint64(keySize), size); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			continue
		}
		inside := below{bucket: p.bucket + "/" + string(key), path: pathSum(p.path, key)}
		inside.page, err = p.nested(inside, start+uint64(keySize), size)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if inside.page != 0 {
			found = append(found, inside)
		}
	}
	return found, nil
}

// Paths of buckets, as in below.
const (
	metaPath    = "/meta"
	journalPath = "/journal"
)

// entry adds an entry, whose value begins at from, to the sum and the journal's check.
func (p page) entry(key []byte, from, size uint64) error {
	if from > p.size || size > p.size-from {
		return errors.New("its value is outside the page")
	}
	if p.walk.rootOnly || p.bucket == metaPath {
		return nil
	}
	value, err := p.slice(from, size)
	if err != nil {
		return err
	}
	p.walk.sum += entrySum(p.path, key, value)
	if p.bucket == journalPath {
		p.walk.journal.next(key, size)
	}
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
