package appliance

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// recordRef is a record that a walk comes by: one that is stored, or one of the
// backlog that need not be made yet.
type recordRef struct {
	micros int64
	seq    uint64
	stored *Record // nil: of the backlog
}

// recordWalk is a way through what a search finds. What it has to go is known by
// times alone, and what is stored after it began is not on it: a walk costs no
// memory, however much lies ahead.
type recordWalk struct {
	search    *recordSearch
	low, high int64 // microseconds, both included: what lies ahead
	skip      int   // of what is found there, how much lies behind all the same
	lastSeq   uint64
	backlog   backlog
	shuffle   uint64 // decides the order of ties; 0: that in which they were stored
}

// walk returns the way through everything that a search finds, with the store
// locked.
func (s *recordStore) walk(search *recordSearch, f behaviour) *recordWalk {
	w := &recordWalk{search: search, skip: search.offset, lastSeq: s.lastSeq, backlog: s.backlog}
	w.low, w.high = search.bounds(f)
	if f.RecordTiesShuffle {
		w.shuffle = s.rand.Uint64()
	}
	return w
}

// bounds returns the first and the last microsecond that a search looks at. What
// the interface leaves open, hazards decide.
func (s *recordSearch) bounds(f behaviour) (low, high int64) {
	const latest = 1 << 52 // milliseconds, which are as many microseconds as fit
	micros := func(millis int64) int64 { return min(max(millis, 0), latest) * 1000 }
	low, high = micros(s.from), micros(s.until)
	switch {
	case !f.RecordUntilInclusive:
		high--
	case f.RecordWholeMillis:
		high += 999
	}
	return low, high
}

// take returns the next n records on the walk and goes on behind them, with the
// store locked.
func (a *Appliance) take(w *recordWalk, n int) []recordRef {
	var page []recordRef
	var elapsed, tied int
	var last int64
	for ref := range a.records.ahead(w) {
		if len(page) == n {
			break
		}
		if !a.finds(w.search, ref) {
			continue
		}
		if tied == 0 || ref.micros != last {
			last, tied = ref.micros, 0
		}
		tied++
		if elapsed++; elapsed > w.skip {
			page = append(page, ref)
		}
	}
	if len(page) == 0 {
		return nil
	}
	w.skip = tied
	if w.search.descending {
		w.high = last
	} else {
		w.low = last
	}
	return page
}

// skipAhead brings a walk that has just begun near the first record that it does
// not skip, where that can be told without a look at those in front of it.
func (s *recordStore) skipAhead(w *recordWalk) {
	if !w.search.isPlain() {
		return
	}
	length := int(w.high - w.low + 1)
	if w.search.descending {
		behind := sort.Search(length, func(d int) bool { return s.count(w, w.high-int64(d), w.high) > w.skip })
		high := w.high - int64(behind)
		w.skip, w.high = w.skip-s.count(w, high+1, w.high), high
		return
	}
	behind := sort.Search(length, func(d int) bool { return s.count(w, w.low, w.low+int64(d)) > w.skip })
	low := w.low + int64(behind)
	w.skip, w.low = w.skip-s.count(w, w.low, low-1), low
}

// total returns how many records a walk that has just begun comes by, with those
// that it skips.
func (a *Appliance) total(w *recordWalk) (n int) {
	if w.search.isPlain() {
		return a.records.count(w, w.low, w.high)
	}
	for ref := range a.records.ahead(w) {
		if a.finds(w.search, ref) {
			n++
		}
	}
	return n
}

// count returns how many records there are of a time, whatever they are.
func (s *recordStore) count(w *recordWalk, low, high int64) int {
	if high < low {
		return 0
	}
	return s.storedBefore(high+1) - s.storedBefore(low) + w.backlog.before(high+1) - w.backlog.before(low)
}

func (s *recordStore) storedBefore(micros int64) int {
	return sort.Search(len(s.stored), func(i int) bool { return s.stored[i].Micros >= micros })
}

// isPlain reports whether a search finds everything of its time.
func (s *recordSearch) isPlain() bool { return len(s.types) == 0 && s.filter == nil }

// finds reports whether a search finds a record of its time.
func (a *Appliance) finds(s *recordSearch, ref recordRef) bool {
	if len(s.types) > 0 && !slices.Contains(s.types, a.recordType(ref.seq)) {
		return false
	}
	return s.filter == nil || s.filter.matches(a.recordOf(ref))
}

func (a *Appliance) recordOf(ref recordRef) *Record {
	if ref.stored != nil {
		return ref.stored
	}
	return a.makeRecord(ref.seq, ref.micros, true)
}

// ahead yields the records of the time that lies ahead of a walk, in its order.
func (s *recordStore) ahead(w *recordWalk) iter.Seq[recordRef] {
	refs := s.upwards(w)
	if w.search.descending {
		refs = s.downwards(w)
	}
	if w.shuffle != 0 {
		return shuffleTies(refs, w.shuffle)
	}
	return refs
}

func (s *recordStore) upwards(w *recordWalk) iter.Seq[recordRef] {
	return func(yield func(recordRef) bool) {
		i, b := s.storedBefore(w.low), w.backlog.before(w.low)
		for {
			ref := recordRef{micros: w.high + 1}
			if b < w.backlog.n {
				ref = w.backlog.ref(b)
			}
			if i < len(s.stored) && s.stored[i].Micros < ref.micros {
				ref = s.stored[i].ref()
				i++
			} else {
				b++
			}
			if ref.micros > w.high || ref.isOn(w) && !yield(ref) {
				return
			}
		}
	}
}

// downwards yields the records the other way round.
func (s *recordStore) downwards(w *recordWalk) iter.Seq[recordRef] {
	return func(yield func(recordRef) bool) {
		i, b := s.storedBefore(w.high+1)-1, w.backlog.before(w.high+1)-1
		for {
			ref := recordRef{micros: w.low - 1}
			if b >= 0 {
				ref = w.backlog.ref(b)
			}
			if i >= 0 && s.stored[i].Micros >= ref.micros {
				ref = s.stored[i].ref()
				i--
			} else {
				b--
			}
			if ref.micros < w.low || ref.isOn(w) && !yield(ref) {
				return
			}
		}
	}
}

func (r *Record) ref() recordRef { return recordRef{micros: r.Micros, seq: r.seq, stored: r} }

// isOn reports whether a record was there when a walk began.
func (ref recordRef) isOn(w *recordWalk) bool { return ref.stored == nil || ref.seq <= w.lastSeq }

// shuffleTies gives records with the same timestamp an order that a lot decides.
func shuffleTies(refs iter.Seq[recordRef], lot uint64) iter.Seq[recordRef] {
	return func(yield func(recordRef) bool) {
		var tied []recordRef
		pass := func() bool {
			slices.SortFunc(tied, func(x, y recordRef) int { return cmp.Compare(mix(lot^x.seq), mix(lot^y.seq)) })
			for _, ref := range tied {
				if !yield(ref) {
					return false
				}
			}
			tied = tied[:0]
			return true
		}
		for ref := range refs {
			if len(tied) > 0 && tied[0].micros != ref.micros && !pass() {
				return
			}
			tied = append(tied, ref)
		}
		pass()
	}
}
