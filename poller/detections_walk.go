package poller

import (
	"errors"
	"fmt"
	"maps"
)

// key is a version's place in the order that pages come in.
type key struct{ modTime, id int64 }

// row is what a walk sees of one object of a page. One whose mod_time cannot be
// read has no place: its key has a modTime of 0 and tells it from others, no
// more.
type row struct {
	key
	placed bool
}

// walk pages through detections by mod_time upwards, while they change under
// it. Whatever was visible before the walk began, lies beyond its bound and
// stays as it is, is on one of its pages.
//
// A page asked from offset 0 holds the lowest rows beyond the bound, so the
// bound may move up to its last row's mod_time less one: ties with that row are
// shown again, whichever way the appliance reads the bound. That fails where a
// page spans no more than two neighbouring milliseconds. There the walk goes on
// by offset, under the same bound, and each page has to begin with a row that
// has been seen: ranks shift down when rows in front of them are updated, and
// would hide as many rows behind.
type walk struct {
	bound  int64 // what to ask for next
	offset int
	// seen are the rows read with this bound, and those that the bound repeats.
	seen map[key]struct{}
	// size is how many rows the last page had.
	size int
	// blind is set when the last page had but one row, and it is to be seen
	// whether there is another: no page can begin with the one and get on.
	blind   bool
	blinded int // how often there was one
	// last is the last page, once the walk has come to its end.
	last []row
	// unjoined counts the pages that did not join since one showed another row.
	unjoined int
	// read is the highest mod_time read; 0 before there is one.
	read int64
	// repeats counts the pages in a row that showed nothing new although they lay
	// behind as many rows as were seen, and stalled all joined pages in a row that
	// showed nothing new at an offset.
	repeats, stalled int
}

// Bounds of a walk that gets nowhere.
const (
	maxRepeats = 10   // rows that become visible late can repeat a page
	maxStalled = 1000 // as many pages of rows may move away at once, and back
	maxTies    = 1_000_000
)

var (
	errOffsetIgnored = errors.New("the appliance shows the same detections at several offsets: it ignores offset, " +
		"and has more detections with one mod_time than a page holds")
	errStalled  = fmt.Errorf("%d pages of detections in a row showed nothing new: the appliance shows no end of one mod_time", maxStalled)
	errManyTies = fmt.Errorf("the appliance shows more than %d detections with one mod_time", maxTies)
)

func newWalk(bound int64) *walk {
	// 0 would mean now, and what is negative is relative to it.
	return &walk{bound: max(bound, 1), seen: make(map[key]struct{})}
}

var errOneRow = errors.New("the appliance returns one detection a page although it has more: such pages cannot be joined safely")

// maxUnjoined is how many pages may not join, while none shows another row, until
// the walk is given up, to begin again with the next poll.
const maxUnjoined = 1000

var errUnsteady = errors.New("the pages of detections of one moment change with every answer: they cannot be joined")

var errNotSorted = errors.New("the appliance did not sort the detections by mod_time: pages cannot be told apart safely")

// step takes the page that was asked with the walk's bound and offset, and
// moves on. short says that the appliance could have returned more rows than
// it did.
//
// joined is false where rows may have slipped away in front of the page: it must
// not count as read, and the walk has stepped back. done is true where the page
// was the last.
func (w *walk) step(page []row, short bool) (joined, done bool, err error) {
	last := -1 // the last row that has a place
	for i, r := range page {
		if !r.placed {
			continue
		}
		if last >= 0 && r.modTime < page[last].modTime {
			return false, false, errNotSorted
		}
		last = i
	}
	if w.blind && len(page) > 0 {
		// Most likely it has just appeared, and now comes with the other.
		if w.blinded++; w.blinded > 3 {
			return false, false, errOneRow
		}
		w.offset, w.blind = 0, false
		return false, false, nil
	}
	if w.offset > 0 && !w.blind {
		joins := false
		if len(page) > 0 {
			_, joins = w.seen[page[0].key]
		}
		if !joins {
			if w.unjoined++; w.unjoined > maxUnjoined {
				return false, false, errUnsteady
			}
			w.offset = max(0, w.offset-max(1, w.size))
			return false, false, nil
		}
	}

	beyond := false
	for _, r := range page {
		if _, seen := w.seen[r.key]; !seen {
			beyond, w.unjoined = true, 0
			w.seen[r.key] = struct{}{}
		}
		w.read = max(w.read, r.modTime)
	}
	w.last = page
	if len(page) == 0 || short {
		return true, true, nil
	}
	w.size = len(page)
	if err := w.stalls(len(page), beyond); err != nil {
		return false, false, err
	}

	if last >= 0 {
		if bound := page[last].modTime - 1; bound > w.bound {
			w.bound, w.offset, w.blind, w.blinded = bound, 0, false, 0
			w.repeats, w.stalled = 0, 0
			maps.DeleteFunc(w.seen, func(k key, _ struct{}) bool { return k.modTime < bound })
			return true, false, nil
		}
	}
	if len(page) == 1 && w.offset > 0 && !beyond {
		return true, true, nil
	}
	if len(page) == 1 {
		w.offset, w.blind = w.offset+1, true
		return true, false, nil
	}
	w.offset += len(page) - 1
	return true, false, nil
}

// stalls returns an error if pages under one bound lead nowhere. beyond says that the
// page, of n rows, showed something new.
func (w *walk) stalls(n int, beyond bool) error {
	switch {
	case beyond:
		w.repeats, w.stalled = 0, 0
	case w.offset > 0:
		w.stalled++
		if w.offset+n > len(w.seen) {
			w.repeats++
		}
	}
	switch {
	case w.repeats > maxRepeats:
		return errOffsetIgnored
	case w.stalled > maxStalled:
		return errStalled
	case len(w.seen) > maxTies:
		return errManyTies
	}
	return nil
}
