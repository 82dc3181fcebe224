package appliance

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// recordRef refers to a stored record, or to one of the backlog that may not have been
// generated yet.
type recordRef struct {
	micros int64
	seq    uint64
	stored *Record // nil: of the backlog
}

// recordWalk is an iteration over the results of a search. It keeps only times, so it takes
// no memory for the records ahead, and it omits records stored after its start.
type recordWalk struct {
	search    *recordSearch
	low, high int64 // the range ahead in microseconds, both inclusive
	skip      int   // the number of records in that range that were returned already
	lastSeq   uint64
	backlog   backlog
	shuffle   uint64 // determines the order of ties; 0: the order of storing
}

// walk returns an iteration over all results of a search. The store must be locked.
func (s *recordStore) walk(search *recordSearch, f behaviour) *recordWalk {
	w := &recordWalk{search: search, skip: search.offset, lastSeq: s.lastSeq, backlog: s.backlog}
	w.low, w.high = search.bounds(f)
	if f.RecordTiesShuffle {
		w.shuffle = s.rand.Uint64()
	}
	return w
}

// bounds returns the first and the last microsecond of a search. Hazards determine what
// the interface does not specify.
func (s *recordSearch) bounds(f behaviour) (low, high int64) {
	const latest = 1 << 52 // milliseconds, whose microseconds fit into an int64
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

// take returns the next n records and advances past them. The store must be locked.
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

// skipAhead advances a new walk to near the first record that it does not skip, if that is
// possible without reading the records before it.
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

// total returns the number of records of a new walk, including those that it skips.
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

// count returns the number of all records in a time range.
func (s *recordStore) count(w *recordWalk, low, high int64) int {
	if high < low {
		return 0
	}
	return s.storedBefore(high+1) - s.storedBefore(low) + w.backlog.before(high+1) - w.backlog.before(low)
}

func (s *recordStore) storedBefore(micros int64) int {
	return sort.Search(len(s.stored), func(i int) bool { return s.stored[i].Micros >= micros })
}

// isPlain reports whether a search selects by time only.
func (s *recordSearch) isPlain() bool { return len(s.types) == 0 && s.filter == nil }

// finds reports whether a search selects a record in its time range.
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
	return a.makeRecord(ref.seq, ref.micros)
}

// ahead yields the records in the range ahead of a walk, in its order.
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

// downwards yields the records in descending order.
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

// isOn reports whether a record existed when the walk began.
func (ref recordRef) isOn(w *recordWalk) bool { return ref.stored == nil || ref.seq <= w.lastSeq }

// shuffleTies reorders records with the same timestamp pseudo-randomly.
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
