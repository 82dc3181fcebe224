package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// weight returns the weight of a member for a shard: a number that depends on both names
// alone.
func weight(member string, shard int) uint64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(member), uint64(shard)))
	return binary.BigEndian.Uint64(sum[:])
}

// claim is a shard of which a member claims a share.
type claim struct {
	member string
	shard  int
	weight uint64
}

// rank returns for each shard the live members that can own it, in the order in which they take
// it. The first is its preferred owner, by rendezvous hashing in which all have equally
// many shards; the second would be that without the first, so that few shards move twice when
// a member is lost. Those that yield the shard come last. A shard that a member yields or
// cannot own moves no other one, unless that is so for all shards.
func rank(live []member, shards int) [][]member {
	ranked := make([][]member, shards)
	var claims []claim
	for shard := range ranked {
		weights := make(map[string]uint64, len(live))
		for _, m := range live {
			weights[m.ID] = weight(m.ID, shard)
			if m.hasShare(shards) {
				claims = append(claims, claim{m.ID, shard, weights[m.ID]})
			}
			if r, has := m.report(shard); !has || r.Role != roleUnable {
				ranked[shard] = append(ranked[shard], m)
			}
		}
		slices.SortFunc(ranked[shard], func(a, b member) int {
			return cmp.Or(cmp.Compare(weights[b.ID], weights[a.ID]), cmp.Compare(a.ID, b.ID))
		})
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.shard, b.shard), cmp.Compare(a.member, b.member))
	})
	second := make(map[string][]string) // by the first
	for shard, first := range assign(claims, shards) {
		if second[first] == nil {
			second[first] = assign(slices.DeleteFunc(slices.Clone(claims), func(c claim) bool { return c.member == first }), shards)
		}
		moveToFront(ranked[shard], second[first][shard])
		moveToFront(ranked[shard], first)
		slices.SortStableFunc(ranked[shard], func(a, b member) int { return compareBool(a.yields(shard), b.yields(shard)) })
	}
	return ranked
}

// hasShare reports whether a member has a share of the shards: it does not yield all of them,
// and can own one.
func (m member) hasShare(shards int) bool {
	unable := 0
	for _, r := range m.Shards {
		if r.Role == roleUnable {
			unable++
		}
	}
	return len(m.Yields) < shards && unable < shards
}

// assign returns the member that has each shard if the claims, sorted by weight, are granted
// one after the other, first to those that have fewer than their share; empty: nobody claims
// it. If everybody claims all shards, the numbers of two members differ by one at most.
func assign(claims []claim, shards int) []string {
	loads := make(map[string]int)
	for _, c := range claims {
		loads[c.member] = 0
	}
	owners := make([]string, shards)
	for limit := shards / max(1, len(loads)); limit <= shards; limit++ {
		left := false
		for _, c := range claims {
			switch {
			case owners[c.shard] != "":
			case loads[c.member] < limit:
				owners[c.shard] = c.member
				loads[c.member]++
			default:
				left = true
			}
		}
		if !left {
			break
		}
	}
	return owners
}

// moveToFront moves a member to the front of members, if it is one of them.
func moveToFront(members []member, id string) {
	if i := slices.IndexFunc(members, func(m member) bool { return m.ID == id }); i > 0 {
		m := members[i]
		copy(members[1:], members[:i])
		members[0] = m
	}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
