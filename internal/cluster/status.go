package cluster

import (
	"slices"
	"time"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/admin"
)

// Cluster returns what this member knows of the cluster. What other members own and follow
// is as old as their entries in the registry, a third of a term.
func (n *Node) Cluster() admin.Cluster {
	v, now := n.members.current(), n.o.Clock.Now()
	c := admin.Cluster{Name: n.o.Name, Member: n.o.Member, Members: []admin.ClusterMember{}}
	for _, m := range v.members {
		c.Members = append(c.Members, admin.ClusterMember{
			Member: m.ID, Version: m.Version, Since: m.Since, Config: n.compare(m.member),
			Owns: v.numbers(m.member, roleOwner), Follows: v.numbers(m.member, roleFollower),
		})
	}
	for _, s := range n.shards {
		c.Shards = append(c.Shards, n.shardStatus(v, now, s))
	}
	return c
}

// compare compares a member's configuration with this one's.
func (n *Node) compare(m member) string {
	switch {
	case m.Version != n.o.Version:
		return admin.ConfigUnknown
	case m.ConfigHash != n.o.ConfigHash():
		return admin.ConfigDiffers
	}
	return admin.ConfigSame
}

// numbers returns the shards for which m has a role.
func (v *view) numbers(m member, is role) []int {
	numbers := []int{}
	for shard := range v.unowned {
		if r, ok := m.report(shard); ok && r.Role == is {
			numbers = append(numbers, shard)
		}
	}
	return numbers
}

func (n *Node) shardStatus(v *view, now time.Duration, s *shard) admin.ClusterShard {
	status := admin.ClusterShard{
		Shard: s.number, Appliances: append([]string{}, n.o.Appliances(s.number)...), Followers: []admin.ClusterFollower{},
	}
	var f *replicated.FollowerStatus // nil: this member does not follow
	var own time.Duration
	status.State, status.Error, own, f = s.now()
	owner, has := v.owner(s.number)
	if has && owner.Instance == v.self {
		has = false // was read earlier
	}
	switch {
	case own > 0:
		status.Owner, status.LeaseSeconds = n.o.Member, own.Seconds()
	case has:
		r, _ := owner.report(s.number)
		if left := time.Duration(r.LeaseMS)*time.Millisecond - (now - owner.changed); left > 0 {
			status.Owner, status.LeaseSeconds = owner.ID, left.Seconds()
		} else {
			status.WithoutOwnerSeconds = (-left).Seconds()
		}
	case v.unowned[s.number] != owned:
		status.WithoutOwnerSeconds = (now - v.unowned[s.number]).Seconds()
	}
	if status.Owner == "" {
		n.next(v, s, f, &status)
	}
	for _, m := range v.candidates(s.number) {
		r, _ := m.report(s.number)
		status.LogBytes = max(status.LogBytes, r.LogBytes)
		if r.Snapshot.After(status.Snapshot) {
			status.Snapshot = r.Snapshot
		}
		if r.Role == roleFollower {
			status.Followers = append(status.Followers, admin.ClusterFollower{Member: m.ID, Behind: r.Behind})
		}
	}
	return status
}

// next fills in who takes a shard without an owner, and when.
func (n *Node) next(v *view, s *shard, f *replicated.FollowerStatus, status *admin.ClusterShard) {
	last := ""
	if f != nil {
		last = f.Owner
	} else if owner, has := v.owner(s.number); has {
		last = owner.Instance
	}
	candidates := v.candidates(s.number)
	i := slices.IndexFunc(candidates, func(m member) bool { return m.Instance != last })
	if i < 0 {
		i = len(candidates) - 1
	}
	if i < 0 {
		return
	}
	status.Next = candidates[i].ID
	if f != nil && !f.Released {
		status.NextSeconds = max(0, n.o.gone(f.Term)-f.Quiet).Seconds()
	}
}

// now returns what this member does with the shard: own is what is left of its lease, f
// the status of its replica; nil: it has none.
func (s *shard) now() (state, failure string, own time.Duration, f *replicated.FollowerStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		failure = s.cause.Error()
	}
	if s.ownership != nil {
		own = s.ownership.lease.Left()
	}
	if s.replica != nil {
		status := s.replica.Status()
		f = &status
	}
	return string(s.state), failure, own, f
}
