package poller

import "slices"

// rewalk decides which polls read again what lies within the overlap. A walk from
// the bound, which shows every version that has become visible late, is a whole one.
// If it takes several pages, the polls between two whole walks are brief: they ask for
// the last page of the walk before again, and so for everything that is newer. There
// is a whole walk for each quarter of the overlap, and one when the overlap has passed
// since the newest version was first read. Once it has passed since a version was, what
// may still become visible is newer, and nothing up to that version is read again.
//
// All times are the appliance's, in milliseconds. It is compared with itself alone: a
// clock that is ahead of the mod_times all the time hides nothing.
type rewalk struct {
	// tail is the walk of the last poll, at its last page; nil: the next poll is whole.
	tail *walk
	// began is when the last whole walk did, pages how many it took, and brief how many
	// polls there were since.
	began int64
	pages int
	brief int
	// marks say by when versions had been read, oldest first.
	marks []mark
	// reached is a mod_time since which the overlap has passed: no version up to it can
	// still become visible, unless later than the overlap.
	reached int64
	// latest is the latest time that the appliance told.
	latest int64
}

// mark says that at a time every version up to a mod_time was in the past.
type mark struct{ at, modTime int64 }

// maxMarks bounds the marks. With fewer of them, less is passed at a time.
const maxMarks = 16

// clockTolerance is by how much the time of an answer may lie behind that of another
// while the clock did not go back, in milliseconds: nodes differ, and times are told in
// whole seconds.
const clockTolerance = 6000

// whole reports whether the next walk must be whole. clock is the appliance's in its
// last answer.
func (r *rewalk) whole(clock, overlap int64) bool {
	switch {
	case r.tail == nil:
		return true
	case len(r.marks) == 0: // nothing can become visible in front of the tail
		return false
	case r.pages <= 1 || r.brief >= idlePolls || clock-r.began >= overlap/4:
		return true
	}
	return clock >= r.marks[len(r.marks)-1].at+overlap+clockTolerance
}

// next is where a brief walk goes on from, which has to show everything behind a
// position.
func (r *rewalk) next(position int64) *walk {
	if r.tail.bound > position-1 {
		return newWalk(position - 1) // the tail lies in the future
	}
	return r.tail
}

// wentBack reports whether an answer's time says that the clock was set back. What
// passed by the clock of before is not known to have passed then.
func (r *rewalk) wentBack(clock int64) bool { return clock+clockTolerance < r.latest }

// reset makes the next walk whole, from where the position says.
func (r *rewalk) reset() { *r = rewalk{} }

// ended takes note of a walk that came to its end: whether it was whole, the pages that
// it took, the times of its first answer and its last, and the position that it led to.
func (r *rewalk) ended(w *walk, whole bool, pages int, first, last, position, overlap int64) {
	r.tail = w
	w.rest()
	r.latest = max(r.latest, last)
	if r.brief++; whole {
		r.began, r.pages, r.brief = first, pages, 0
		for len(r.marks) > 0 && r.marks[0].at+overlap+clockTolerance <= first {
			r.reached = max(r.reached, r.marks[0].modTime)
			r.marks = slices.Delete(r.marks, 0, 1)
		}
	}
	newest := r.reached
	if n := len(r.marks); n > 0 {
		newest = r.marks[n-1].modTime
	}
	if position <= newest {
		return
	}
	if len(r.marks) == maxMarks {
		for i := range maxMarks / 2 {
			r.marks[i] = r.marks[2*i+1]
		}
		r.marks = r.marks[:maxMarks/2]
	}
	r.marks = append(r.marks, mark{last, position})
}

// rest readies a walk that came to its end for asking for its last page again.
func (w *walk) rest() {
	w.blinded, w.unjoined, w.repeats, w.stalled = 0, 0, 0, 0
	if w.blind { // behind the one row of the last page, which may have moved
		w.offset, w.blind = 0, false
	}
	// A page from offset 0 joins by itself. Another one is to begin with a row of its
	// own; if it does not, the walk steps back until it needs none.
	w.seen = make(map[key]struct{}, len(w.last))
	if w.offset > 0 {
		for _, r := range w.last {
			w.seen[r.key] = struct{}{}
		}
	}
	w.last = nil
}
