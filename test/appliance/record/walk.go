package record

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sort"

	"ndrbridge/test/appliance/devices"
)

// reference refers to a stored record, or to one of the backlog that may not have been
// generated yet.
type reference struct {
	micros int64
	seq    uint64
	stored *Record // nil: of the backlog
}

// walk is an iteration over the results of a search. It keeps only times, so it takes
// no memory for the records ahead, and it omits records stored after its start.
type walk struct {
	search    *search
	low, high int64 // the range ahead in microseconds, both inclusive
	skip      int   // the number of records in that range that were returned already
	lastSeq   uint64
	backlog   backlog
	shuffle   uint64 // determines the order of ties; 0: the order of storing
}

// walk returns an iteration over all results of a search. The store must be locked.
func (s *Store) walk(search *search, b Behaviour) *walk {
	w := &walk{search: search, skip: search.offset, lastSeq: s.lastSeq, backlog: s.backlog}
	w.low, w.high = search.bounds(b)
	if b.TiesShuffle {
		w.shuffle = s.options.Rand.Uint64()
	}
	return w
}

// bounds returns the first and the last microsecond of a search. Hazards determine what
// the interface does not specify.
func (s *search) bounds(b Behaviour) (low, high int64) {
	const latest = 1 << 52 // milliseconds, whose microseconds fit into an int64
	micros := func(millis int64) int64 { return min(max(millis, 0), latest) * 1000 }
	low, high = micros(s.from), micros(s.until)
	switch {
	case !b.UntilInclusive:
		high--
	case b.WholeMillis:
		high += 999
	}
	return low, high
}

// take returns the next n records and advances past them. It returns fewer if ctx is done, which
// means that the client is gone. The store must be locked.
func (s *Store) take(ctx context.Context, w *walk, n int) []reference {
	var page []reference
	var elapsed, tied int
	var last int64
	for ref := range s.ahead(w) {
		if len(page) == n || ctx.Err() != nil {
			break
		}
		if !s.finds(w.search, ref) {
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
func (s *Store) skipAhead(w *walk) {
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

// total returns the number of records of a new walk, including those that it skips. It counts no
// further if ctx is done.
func (s *Store) total(ctx context.Context, w *walk) (n int) {
	if w.search.isPlain() {
		return s.count(w, w.low, w.high)
	}
	for ref := range s.ahead(w) {
		if ctx.Err() != nil {
			break
		}
		if s.finds(w.search, ref) {
			n++
		}
	}
	return n
}

// count returns the number of all records in a time range.
func (s *Store) count(w *walk, low, high int64) int {
	if high < low {
		return 0
	}
	return s.storedBefore(high+1) - s.storedBefore(low) + w.backlog.before(high+1) - w.backlog.before(low)
}

func (s *Store) storedBefore(micros int64) int {
	return sort.Search(len(s.stored), func(i int) bool { return s.stored[i].Micros >= micros })
}

// isPlain reports whether a search selects by time only.
func (s *search) isPlain() bool { return len(s.types) == 0 && s.filter == nil }

// finds reports whether a search selects a record in its time range.
func (s *Store) finds(q *search, ref reference) bool {
	if len(q.types) > 0 && !slices.Contains(q.types, s.typeOf(ref.seq)) {
		return false
	}
	return q.filter == nil || q.filter.matches(s.recordOf(ref))
}

func (s *Store) recordOf(ref reference) *Record {
	if ref.stored != nil {
		return ref.stored
	}
	return s.generate(ref.seq, ref.micros)
}

// ahead yields the records in the range ahead of a walk, in its order.
func (s *Store) ahead(w *walk) iter.Seq[reference] {
	refs := s.upwards(w)
	if w.search.descending {
		refs = s.downwards(w)
	}
	if w.shuffle != 0 {
		return shuffleTies(refs, w.shuffle)
	}
	return refs
}

func (s *Store) upwards(w *walk) iter.Seq[reference] {
	return func(yield func(reference) bool) {
		i, b := s.storedBefore(w.low), w.backlog.before(w.low)
		for {
			ref := reference{micros: w.high + 1}
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
func (s *Store) downwards(w *walk) iter.Seq[reference] {
	return func(yield func(reference) bool) {
		i, b := s.storedBefore(w.high+1)-1, w.backlog.before(w.high+1)-1
		for {
			ref := reference{micros: w.low - 1}
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

func (r *Record) ref() reference { return reference{micros: r.Micros, seq: r.seq, stored: r} }

// isOn reports whether a record existed when the walk began.
func (ref reference) isOn(w *walk) bool { return ref.stored == nil || ref.seq <= w.lastSeq }

// shuffleTies reorders records with the same timestamp pseudo-randomly.
func shuffleTies(refs iter.Seq[reference], lot uint64) iter.Seq[reference] {
	return func(yield func(reference) bool) {
		var tied []reference
		pass := func() bool {
			slices.SortFunc(tied, func(x, y reference) int { return cmp.Compare(devices.Hash(lot^x.seq), devices.Hash(lot^y.seq)) })
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
