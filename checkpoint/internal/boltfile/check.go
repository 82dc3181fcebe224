package boltfile

import (
	"fmt"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// Check checks every page that the file of the read transaction tx uses: that bbolt can read it
// without failing. Until it has returned, nothing may be read in tx. It returns the sum of the
// entries, and passes each to visit, in the order of the keys of its bucket, with the names of its
// buckets, each after a slash; key is only valid during the call. If visit is nil, it checks only
// the list of free pages and the pages that hold the names of the buckets and the small buckets,
// which are stored with their names.
func Check(file *os.File, tx *bolt.Tx, visit func(bucket string, key []byte, valueSize uint64)) (sum uint64, err error) {
	w := &pageWalk{file: file, visit: visit}
	if err = w.measure(tx); err == nil {
		err = w.tree(below{page: uint64(tx.Cursor().Bucket().RootPage())}, 0)
	}
	if err == nil {
		err = w.freelist(tx)
	}
	return w.sum, err
}

// pageWalk reads the pages of a file. It does not use bbolt's map of the file, and needs
// little memory however damaged the file is.
type pageWalk struct {
	file  *os.File
	size  uint64                                            // of a page
	pages uint64                                            // upper bound of the numbers of pages in use
	seen  []uint64                                          // a bit per page
	visit func(bucket string, key []byte, valueSize uint64) // nil: skip the contents of the buckets, except small ones
	sum   uint64                                            // of the entries, without MetaBucket

	// Consecutive pages of the file, beginning with page first, and the page after the
	// last one requested.
	held        []byte
	first, next uint64
}

// readAhead is how many bytes are read at once if requested pages follow each other, as
// the pages of a bucket that grows at its end mostly do.
const readAhead = 256 << 10

// measure finds a file that was cut short. It touches nothing that bbolt has mapped except its
// meta pages.
func (w *pageWalk) measure(tx *bolt.Tx) error {
	info, err := w.file.Stat()
	if err != nil {
		return err
	}
	pageSize := tx.DB().Info().PageSize
	if tx.Size() > info.Size() || pageSize < pageHeader+metaSize {
		return fmt.Errorf("the file has %d bytes of at least %d: it was cut short", info.Size(), tx.Size())
	}
	w.size, w.pages = uint64(pageSize), uint64(tx.Size())/uint64(pageSize)
	w.seen = make([]uint64, w.pages/64+1)
	return nil
}

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
		if n <= previous || n >= w.pages || w.seen[n/64]&(1<<(n%64)) != 0 {
			return fmt.Errorf("page %d: page %d is not free", id, n)
		}
		previous = n
	}
	return nil
}

// freelistPage returns the number of the first page of the list of free pages. bbolt takes
// it from the meta page of the transaction.
func (w *pageWalk) freelistPage(tx *bolt.Tx) (uint64, error) {
	meta := make([]byte, metaSize)
	for page := range uint64(2) {
		if _, err := w.file.ReadAt(meta, int64(page*w.size+pageHeader)); err != nil {
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
	p.bucket, p.path, p.walk = b.bucket, b.path, w
	found, err := p.elements(b.low, b.high)
	if err != nil {
		return fmt.Errorf("page %d: %w", b.page, err)
	}
	for _, f := range found {
		if w.visit == nil && f.bucket != b.bucket {
			continue
		}
		if err := w.tree(f, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// below is a reference to a page from another one.
type below struct {
	page      uint64
	low, high []byte
	bucket    string // the path of its bucket; "" for the root
	path      uint32 // see pathSum
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
		bit := uint64(1) << (n % 64)
		if w.seen[n/64]&bit != 0 {
			return page{}, fmt.Errorf("page %d is used twice", n)
		}
		w.seen[n/64] |= bit
	}
	w.next = id + 1 + overflow
	return page{
		flags: native.Uint16(b[8:]), count: native.Uint16(b[10:]),
		size: (1 + overflow) * w.size, bytes: b, at: int64(id * w.size), file: w.file,
	}, nil
}
