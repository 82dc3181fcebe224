package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// weight returns the weight of a member for a shard: a number that depends on both names
// alone. Of the members that live, the one with the highest weight is to own the shard, so
// that a member that joins or leaves moves the shards that it gets or had and no others.
func weight(member string, shard int) uint64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(member), uint64(shard)))
	return binary.BigEndian.Uint64(sum[:])
}

// rank sorts members, which it changes, by which is to own the shard: those that yield it
// come last.
func rank(members []member, shard int) []member {
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(
			compareBool(a.yields(shard), b.yields(shard)),
			cmp.Compare(weight(b.ID, shard), weight(a.ID, shard)),
			cmp.Compare(a.ID, b.ID))
	})
	return members
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
