package poller

import "slices"

// rewalk decides which polls read the overlap again. A whole walk begins at the bound, and
// shows every version that has become visible late. If it takes several pages, the polls
// between two whole walks are brief: they request the last page of the previous walk
// again, and so everything newer. A whole walk is due once per quarter of the overlap, and
// when the overlap has passed since the newest version was first read. Once the overlap
// has passed since a version was first read, only newer versions may still become visible,
// and nothing up to that version is read again.
//
// All times are the appliance's, in milliseconds, and compared only with each other: a
// clock that is constantly ahead of the mod_times hides nothing.
type rewalk struct {
	// tail is the walk of the last poll, at its last page; nil: the next poll is whole.
	tail *walk
	// began is when the last whole walk began, pages is how many pages it took, and
	// brief is how many polls there were since.
	began int64
	pages int
	brief int
	// marks record when versions had been read, oldest first.
	marks []mark
	// reached is the mod_time up to which the overlap has passed: a version up to it can
	// become visible only later than the overlap.
	reached int64
	// latest is the latest time among the appliance's answers.
	latest int64
}

// mark records that at a time every version up to a mod_time was in the past.
type mark struct{ at, modTime int64 }

// maxMarks bounds the marks. The fewer there are, the less often reached advances.
const maxMarks = 16

// clockTolerance is how far the time of an answer may be behind that of another although
// the clock did not go back, in milliseconds: nodes differ, and answers carry whole
// seconds.
const clockTolerance = 6000

// whole reports whether the next walk must be whole. clock is the appliance's time in its
// last answer.
func (r *rewalk) whole(clock, overlap int64) bool {
	switch {
	case r.tail == nil:
		return true
	case len(r.marks) == 0: // nothing can become visible before the tail
		return false
	case r.pages <= 1 || r.brief >= idlePolls || clock-r.began >= overlap/4:
		return true
	}
	return clock >= r.marks[len(r.marks)-1].at+overlap+clockTolerance
}

// next returns the walk that a brief poll continues, which has to show everything after a
// position.
func (r *rewalk) next(position int64) *walk {
	if r.tail.bound > position-1 {
		return newWalk(position - 1) // the tail is in the future
	}
	return r.tail
}

// wentBack reports whether an answer's time shows that the clock was set back. Time that
// passed by the clock as it was before may not have passed by the clock as it is now.
func (r *rewalk) wentBack(clock int64) bool { return clock+clockTolerance < r.latest }

// reset makes the next walk whole, beginning at the position.
func (r *rewalk) reset() { *r = rewalk{} }

// ended records a walk that reached its end: whether it was whole, how many pages it took,
// the times of its first and its last answer, and the position that it led to.
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
			w.seen[r.key] = struct{}{}
		}
	}
	w.last = nil
}
