package poller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ndrbridge/checkpoint"
)

// key is a version's position in the order of pages. An object without a readable mod_time
// has no position: its modTime is 0, and the key only distinguishes it from others.
type key struct{ modTime, id int64 }

// positioned reports whether k is a position.
func (k key) positioned() bool { return k.modTime > 0 }

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
	// last is the last page that joined.
	last []key
	// doubt is the first row of the page before, if it was in last by its id alone.
	doubt key
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
	maxRepeats  = 10   // rows that become visible late can repeat a page
	maxStalled  = 1000 // so many pages of rows may move away and back at once
	maxUnjoined = 1000 // so many pages may fail to join while none shows a new row
	maxTies     = 1_000_000
)

var (
	errNotSorted     = errors.New("the appliance did not sort the detections by mod_time: pages cannot be joined safely")
	errOneRow        = errors.New("the appliance returns one detection a page although it has more: such pages cannot be joined safely")
	errUnsteady      = errors.New("the pages of detections with one mod_time change with every answer: they cannot be joined")
	errOffsetIgnored = errors.New("the appliance returns the same detections at several offsets: it ignores offset, " +
		"and has more detections with one mod_time than a page holds")
	errStalled  = fmt.Errorf("%d pages of detections in a row showed nothing new: the detections with one mod_time do not end", maxStalled)
	errManyTies = fmt.Errorf("the appliance shows more than %d detections with one mod_time", maxTies)
)

// minBound is the lowest bound: 0 would mean now, and a negative bound is relative to it.
const minBound = 1

func newWalk(bound int64) *walk {
	return &walk{bound: max(bound, minBound), seen: make(map[key]struct{})}
}

// step processes the page that was requested with the walk's bound and offset, and moves
// on. short is true if the appliance could have returned more rows than it did.
//
// joined is false if rows may have slipped away before the page: it must not count as
// read, and the walk has stepped back. done is true if the page was the last.
func (w *walk) step(page []key, short bool) (joined, done bool, err error) {
	last := -1 // the last row that has a position
	for i, r := range page {
		if !r.positioned() {
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
		if len(page) == 0 || !w.joins(page[0]) {
			if w.unjoined++; w.unjoined > maxUnjoined {
				return false, false, errUnsteady
			}
			w.offset = max(0, w.offset-max(1, w.size))
			return false, false, nil
		}
	}

	beyond := false
	for _, r := range page {
		if _, seen := w.seen[r]; !seen {
			beyond, w.unjoined = true, 0
			w.seen[r] = struct{}{}
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

// joins reports whether a page that begins with r continues the last one. A row that could be
// read only once, in a page with others or by itself, has no position the other time: it may
// have changed, and left others behind. Then the last page is requested again, and has to show
// the row before it.
func (w *walk) joins(r key) bool {
	if _, seen := w.seen[r]; seen {
		return true
	}
	same := slices.ContainsFunc(w.last, func(seen key) bool {
		return seen.id == r.id && (!seen.positioned() || !r.positioned())
	})
	confirmed := same && w.doubt == r
	w.doubt = key{}
	if same {
		w.doubt = r
	}
	return confirmed
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

// rewalk decides what polls read again of what may still become visible late: the versions
// since the time before which the overlap has passed. While these fit one page, every poll is
// a whole walk, which begins in front of them. Otherwise a poll requests the last page of the
// previous walk again, and so everything newer. When the overlap has passed since versions
// were first read, a second look shows what has become visible among them, once: later
// versions can become visible only later than the overlap.
//
// All times are the appliance's, in milliseconds, and compared only with each other: a
// clock that is constantly ahead of the mod_times hides nothing.
type rewalk struct {
	// tail is the walk of the last poll, at its last page; nil: the next poll is whole.
	tail *walk
	// marks record when versions had been read, oldest first.
	marks []mark
	// reached is the mod_time up to which everything was read after the overlap had passed: a
	// version up to it can become visible only later than the overlap.
	reached int64
	// latest is the latest time among the appliance's answers.
	latest int64
}

// mark records that at a time every version up to a mod_time was in the past, and read.
type mark struct{ at, modTime int64 }

// marksPerOverlap bounds the marks. The fewer there are, the later a second look can be.
const marksPerOverlap = 4

// clockTolerance is how far the time of an answer may be behind that of another although
// the clock did not go back, in milliseconds: nodes differ, and answers carry whole
// seconds.
const clockTolerance = 6000

// whole reports whether the next walk has to begin at bound, as a whole walk does, or shows no
// more than the tail if it does.
func (r *rewalk) whole(bound int64) bool {
	return r.tail == nil || r.tail.bound < bound || r.tail.bound == bound && r.tail.offset == 0
}

// next returns the walk that continues at the tail, and has to show everything after a
// position.
func (r *rewalk) next(position int64) *walk {
	if r.tail.bound > position-1 {
		return newWalk(position - 1) // the tail is in the future
	}
	return r.tail
}

// due returns the mod_time up to which the overlap has passed at a time; 0: none.
func (r *rewalk) due(clock, overlap int64) (modTime int64) {
	for _, m := range r.marks {
		if m.at+overlap+clockTolerance <= clock {
			modTime = m.modTime
		}
	}
	return modTime
}

// looked records that everything up to a mod_time was read after the overlap had passed.
func (r *rewalk) looked(modTime int64) {
	r.reached = max(r.reached, modTime)
	r.marks = slices.DeleteFunc(r.marks, func(m mark) bool { return m.modTime <= r.reached })
}

// wentBack reports whether an answer's time shows that the clock was set back. Time that
// passed by the clock as it was before may not have passed by the clock as it is now.
func (r *rewalk) wentBack(clock int64) bool { return clock+clockTolerance < r.latest }

// ended records a walk that reached its end, the time of its last answer, and the position
// that it led to.
func (r *rewalk) ended(w *walk, last, position, overlap int64) {
	r.tail = w
	w.rest()
	r.latest = max(r.latest, last)
	n := len(r.marks)
	switch {
	case position <= r.reached || n > 0 && position <= r.marks[n-1].modTime:
	case n > 1 && r.marks[n-1].at-r.marks[n-2].at < max(overlap/marksPerOverlap, clockTolerance):
		r.marks[n-1] = mark{last, position}
	default:
		r.marks = append(r.marks, mark{last, position})
	}
}

// rest prepares a walk that reached its end for requesting its last page again.
func (w *walk) rest() {
	w.blinded, w.unjoined, w.repeats, w.stalled = 0, 0, 0, 0
	if w.blind { // after the only row of the last page, which may have moved
		w.offset, w.blind = 0, false
	}
	// A page from offset 0 needs no join. Another one has to begin with one of its own
	// rows; if it does not, the walk steps back until no join is needed.
	w.seen = make(map[key]struct{}, len(w.last))
	if w.offset > 0 {
		for _, r := range w.last {
			w.seen[r] = struct{}{}
		}
	}
}

// bound returns where a whole walk or a second look begins: early enough whether the
// appliance treats the bound as inclusive or exclusive.
func (d *Detections) bound() int64 {
	return max(d.position.Whole-d.o.Overlap.Milliseconds()-1, d.position.Floor-1, d.rewalk.reached, minBound)
}

// goBack moves the position back with the appliance's clock: a version changed from now on
// has a mod_time before the old position.
func (d *Detections) goBack(ctx context.Context, clock int64) error {
	d.o.Log.Warn("the appliance's clock went back; reading again from there",
		"from", time.UnixMilli(d.position.ModTime).UTC(), "to", time.UnixMilli(clock).UTC())
	p := d.position
	p.ModTime, p.Whole = clock, min(p.Whole, clock)
	p.Floor = min(p.Floor, clock)
	if overlap := d.o.Overlap.Milliseconds(); d.position.ModTime-clock > overlap {
		// How far it had gone back before this answer is not known: sweep at once.
		p.Floor = min(p.Floor, clock-overlap)
		p.Swept = 0
		d.sweep = nil
	}
	return d.commit(ctx, p, checkpoint.Commit{})
}
