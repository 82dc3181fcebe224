package appliance

import "slices"

// find returns the results of a search. The store must be locked for reading.
func (s *shelf) find(q *search, limit int, f behaviour, seed uint64) []*Version {
	var found []*Version
	if q.sort.isIndexed() && !f.ShuffledTies {
		skip := q.offset
		for v := range s.byModTime.from(q.bound(f.InclusiveBound)) {
			switch {
			case len(found) == limit:
				return found
			case !q.matches(v, f.InclusiveBound):
			case skip > 0:
				skip--
			default:
				found = append(found, v)
			}
		}
		return found
	}
	for v := range s.byModTime.from(q.bound(f.InclusiveBound)) {
		if q.matches(v, f.InclusiveBound) {
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
