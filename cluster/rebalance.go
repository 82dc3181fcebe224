package cluster

import "time"

// rebalance returns a shard that this member, which owns it, is to hand over to the member
// that is to own it by rendezvous: one that has lived for settled and that follows and has
// caught up. It returns false if there is none.
func (v *view) rebalance(now, settled time.Duration) (shard int, to member, ok bool) {
	for shard := range v.unowned {
		owner, has := v.owner(shard)
		if !has || owner.Instance != v.self {
			continue
		}
		first, has := v.preferred(shard)
		if !has || first.Instance == v.self || now-first.first < settled {
			continue
		}
		if r, follows := first.report(shard); follows && r.Role == roleFollower && r.CaughtUp {
			return shard, first.member, true
		}
	}
	return 0, member{}, false
}
