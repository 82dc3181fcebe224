package appliance

import (
	"cmp"
	"iter"
	"slices"
)

// shelf contains the visible versions and the history.
type shelf struct {
	current     []*Version    // the last version of each, unordered
	position    map[int64]int // in current, by id
	byModTime   index
	history     []*Version
	withHistory bool
}

func (s *shelf) init(withHistory bool) {
	s.position = make(map[int64]int)
	s.withHistory = withHistory
}

// last returns the visible version of a detection, or nil.
func (s *shelf) last(id int64) *Version {
	if i, ok := s.position[id]; ok {
		return s.current[i]
	}
	return nil
}

// put makes v the visible version of its detection.
func (s *shelf) put(v *Version) {
	if i, ok := s.position[v.ID]; ok {
		s.byModTime.remove(s.current[i])
		s.current[i] = v
	} else {
		s.position[v.ID] = len(s.current)
		s.current = append(s.current, v)
	}
	s.byModTime.insert(v)
	if s.withHistory {
		s.history = append(s.history, v)
	}
}

// hide makes a detection invisible.
func (s *shelf) hide(v *Version) {
	s.byModTime.remove(v)
	i, last := s.position[v.ID], len(s.current)-1
	s.current[i] = s.current[last]
	s.position[s.current[i].ID] = i
	s.current[last] = nil
	s.current = s.current[:last]
	delete(s.position, v.ID)
}

// index keeps versions sorted by mod_time, then id, in a list of short sorted chunks. A
// change moves a few thousand bytes, whatever the size of the index.
type index struct {
	chunks [][]*Version // none is empty
}

const maxChunk = 512

func byModTimeAndID(a, b *Version) int {
	return cmp.Or(cmp.Compare(a.ModTime, b.ModTime), cmp.Compare(a.ID, b.ID))
}

// chunkOf returns the chunk to which v belongs.
func (x *index) chunkOf(v *Version) int {
	next, _ := slices.BinarySearchFunc(x.chunks, v, func(chunk []*Version, v *Version) int {
		if byModTimeAndID(chunk[0], v) <= 0 {
			return -1
		}
		return 1
	})
	return max(0, next-1)
}

func (x *index) insert(v *Version) {
	if len(x.chunks) == 0 {
		x.chunks = [][]*Version{{v}}
		return
	}
	c := x.chunkOf(v)
	chunk := x.chunks[c]
	at, _ := slices.BinarySearchFunc(chunk, v, byModTimeAndID)
	switch {
	case len(chunk) < maxChunk:
		x.chunks[c] = slices.Insert(chunk, at, v)
	case at == len(chunk):
		// Appending in order leaves full chunks.
		x.chunks = slices.Insert(x.chunks, c+1, []*Version{v})
	default:
		left, right := chunk[:maxChunk/2:maxChunk/2], slices.Clone(chunk[maxChunk/2:])
		clear(chunk[maxChunk/2:])
		if at <= len(left) {
			left = slices.Insert(left, at, v)
		} else {
			right = slices.Insert(right, at-len(left), v)
		}
		x.chunks[c] = left
		x.chunks = slices.Insert(x.chunks, c+1, right)
	}
}

// remove removes v, which must be in the index.
func (x *index) remove(v *Version) {
	c := x.chunkOf(v)
	at, found := slices.BinarySearchFunc(x.chunks[c], v, byModTimeAndID)
	if !found {
		panic("the index lost a detection")
	}
	if x.chunks[c] = slices.Delete(x.chunks[c], at, at+1); len(x.chunks[c]) == 0 {
		x.chunks = slices.Delete(x.chunks, c, c+1)
	}
}

// from yields the versions whose mod_time is at least bound, in order.
func (x *index) from(bound int64) iter.Seq[*Version] {
	return func(yield func(*Version) bool) {
		first := &Version{ModTime: bound, ID: -1 << 63}
		c := x.chunkOf(first)
		for i, chunk := range x.chunks[min(c, len(x.chunks)):] {
			if i == 0 {
				at, _ := slices.BinarySearchFunc(chunk, first, byModTimeAndID)
				chunk = chunk[at:]
			}
			for _, v := range chunk {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// find returns the results of a search, without what is hidden. The store must be locked for
// reading.
func (s *shelf) find(q *search, limit int, h hidden, f behaviour, seed uint64) []*Version {
	var found []*Version
	if q.sort.isIndexed() && !f.ShuffledTies {
		skip := q.offset
		for v := range s.byModTime.from(q.bound(f.InclusiveBound)) {
			switch {
			case len(found) == limit:
				return found
			case !q.matches(v, f.InclusiveBound) || h.has(v.ID):
			case skip > 0:
				skip--
			default:
				found = append(found, v)
			}
		}
		return found
	}
	for v := range s.byModTime.from(q.bound(f.InclusiveBound)) {
		if q.matches(v, f.InclusiveBound) && !h.has(v.ID) {
			found = append(found, v)
		}
	}
	compare := q.sort.comparer()
	if f.ShuffledTies {
		compare = shuffled(compare, seed)
	}
	slices.SortFunc(found, compare)
	found = found[min(q.offset, len(found)):]
	return found[:min(limit, len(found))]
}
