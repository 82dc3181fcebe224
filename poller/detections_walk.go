package poller

import (
	"errors"
	"fmt"
	"maps"
)

// key is a version's position in the order of pages.
type key struct{ modTime, id int64 }

// row is what a walk sees of one object of a page. An object without a readable mod_time
// has no position: its key has a modTime of 0 and only distinguishes it from others.
type row struct {
	key
	positioned bool
}

// walk pages through detections in ascending order of mod_time while they change. Every
// version that was visible before the walk began, is beyond its bound and does not change
// is on one of its pages.
//
// A page requested from offset 0 holds the lowest rows beyond the bound, so the bound may
// advance to its last row's mod_time minus one: rows with the same mod_time as that row
// are shown again, whether the appliance treats the bound as inclusive or exclusive. That
// does not work if a page spans at most two neighbouring milliseconds. The walk then
// continues by offset, with the same bound, and each page has to begin with a row that has
// been seen: offsets shift down when earlier rows are updated, and as many later rows
// would be missed.
type walk struct {
	bound  int64 // the bound to request next
	offset int
	// seen holds the rows read with this bound, and the rows that the bound repeats.
	seen map[key]struct{}
	// size is the number of rows of the last page.
	size int
	// blind is set if the last page had only one row, and the walk checks whether there
	// is another: no page can begin with that row and still make progress.
	blind   bool
	blinded int // how often there was another
	// last is the last page, when the walk has reached its end.
	last []row
	// unjoined counts the pages that did not join since a page showed a new row.
	unjoined int
	// read is the highest mod_time read; 0 if there is none.
	read int64
	// repeats counts the pages in a row that showed nothing new although they extended
	// past as many rows as were seen; stalled counts all joined pages in a row that
	// showed nothing new at an offset.
	repeats, stalled int
}

// Bounds of a walk that makes no progress.
const (
	maxRepeats = 10   // rows that become visible late can repeat a page
	maxStalled = 1000 // so many pages of rows may move away and back at once
	maxTies    = 1_000_000
)

var (
	errOffsetIgnored = errors.New("the appliance returns the same detections at several offsets: it ignores offset, " +
		"and has more detections with one mod_time than a page holds")
	errStalled  = fmt.Errorf("%d pages of detections in a row showed nothing new: the detections with one mod_time do not end", maxStalled)
	errManyTies = fmt.Errorf("the appliance shows more than %d detections with one mod_time", maxTies)
)

func newWalk(bound int64) *walk {
	// 0 would mean now, and a negative bound is relative to it.
	return &walk{bound: max(bound, 1), seen: make(map[key]struct{})}
}

var errOneRow = errors.New("the appliance returns one detection a page although it has more: such pages cannot be joined safely")

// maxUnjoined is how many pages may fail to join, while none shows a new row, before the
// walk is given up and begins again with the next poll.
const maxUnjoined = 1000

var errUnsteady = errors.New("the pages of detections with one mod_time change with every answer: they cannot be joined")

var errNotSorted = errors.New("the appliance did not sort the detections by mod_time: pages cannot be joined safely")

// step processes the page that was requested with the walk's bound and offset, and moves
// on. short is true if the appliance could have returned more rows than it did.
//
// joined is false if rows may have slipped away before the page: it must not count as
// read, and the walk has stepped back. done is true if the page was the last.
func (w *walk) step(page []row, short bool) (joined, done bool, err error) {
	last := -1 // the last row that has a position
	for i, r := range page {
		if !r.positioned {
			continue
		}
		if last >= 0 && r.modTime < page[last].modTime {
			return false, false, errNotSorted
		}
		last = i
	}
	if w.blind && len(page) > 0 {
		// Most likely it has just appeared, and the next page shows both.
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

// stalls returns an error if pages with one bound make no progress. beyond is true if the
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
