package cluster

import (
	"slices"
	"time"
)

// view is what a member knows about the cluster at one moment. It may be wrong: a wrong
// view costs time, and never makes two owners, because the log of the shard decides.
// It is not changed after it was made.
type view struct {
	self    string          // the instance of the member that has the view
	members []observed      // live, sorted by name; self is one of them
	claimed bool            // self has claimed its name
	unowned []time.Duration // by shard: since when, by the member's clock, no live member publishes that it owns the shard; owned: it has an owner
	ranked  [][]member      // by shard: see candidates
}

// newView returns a view in which every shard has an owner.
func newView(self string, members []observed, shards int) *view {
	v := &view{self: self, members: members, unowned: make([]time.Duration, shards)}
	for shard := range v.unowned {
		v.unowned[shard] = owned
	}
	live := make([]member, len(members))
	for i, m := range members {
		live[i] = m.member
	}
	v.ranked = rank(live, shards)
	return v
}

// owned stands in view.unowned for a shard that has an owner.
const owned time.Duration = -1

// owner returns the live member that publishes that it owns the shard; of two, the one that is
// further in the log.
func (v *view) owner(shard int) (m observed, ok bool) {
	var best report
	for _, s := range v.members {
		if r, has := s.report(shard); has && r.Role == roleOwner && (!ok || r.Offset > best.Offset) {
			m, best, ok = s, r, true
		}
	}
	return m, ok
}

// candidates returns the live members that can own the shard, in the order in which they
// take it. The owner is one of them. The caller must not change them.
func (v *view) candidates(shard int) []member { return v.ranked[shard] }

// turn returns how many members go before this one when the lease of last, an instance,
// is over. last goes after all others: it stopped, died, or gave the shard away. It
// returns false if this member is no candidate.
func (v *view) turn(shard int, last string) (n int, ok bool) {
	all := v.candidates(shard)
	if n = v.index(all); n < 0 {
		return 0, false
	}
	if v.self == last {
		return len(all) - 1, true
	}
	return v.index(without(all, last)), true
}

// without returns the members but the one of an instance.
func without(members []member, instance string) []member {
	return slices.DeleteFunc(slices.Clone(members), func(m member) bool { return m.Instance == instance })
}

// index returns where this member is among members; -1: nowhere.
func (v *view) index(members []member) int {
	return slices.IndexFunc(members, func(m member) bool { return m.Instance == v.self })
}

// shouldFollow reports whether this member should follow the shard, at now by its clock. A
// shard with an owner has one follower: the first candidate beside the owner, and until
// that one has caught up the one before. Candidates begin to follow a shard without an
// owner in turn, step apart.
func (v *view) shouldFollow(shard int, following bool, now, step time.Duration) bool {
	others := v.candidates(shard)
	owner, has := v.owner(shard)
	if has {
		others = without(others, owner.Instance)
	}
	n := v.index(others)
	switch {
	case n < 0:
		return false
	case n == 0:
		return true
	case !has:
		return following || now-v.unowned[shard] >= time.Duration(n)*step
	case !following:
		return false
	}
	for _, m := range others[:n] {
		if r, follows := m.report(shard); follows && r.CaughtUp {
			return false
		}
	}
	return true
}

// ahead reports whether another live member has records of the shard behind an offset, or others
// that the log lacks.
func (v *view) ahead(shard int, offset uint64) bool {
	return slices.ContainsFunc(v.members, func(s observed) bool {
		r, has := s.report(shard)
		return has && s.Instance != v.self && (r.Lost || r.Offset > offset)
	})
}

// needs returns the offset that a snapshot of the shard must have for a member that cannot
// follow the log; 0: there is none.
func (v *view) needs(shard int) (offset uint64) {
	for _, s := range v.members {
		if r, has := s.report(shard); has {
			offset = max(offset, r.Needs)
		}
	}
	return offset
}

// preferred returns the preferred owner of the shard.
func (v *view) preferred(shard int) (observed, bool) {
	candidates := v.candidates(shard)
	if len(candidates) == 0 {
		return observed{}, false
	}
	i := slices.IndexFunc(v.members, func(s observed) bool { return s.Instance == candidates[0].Instance })
	return v.members[i], true
}
