package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// rebalance returns a shard that this member, which owns it, should hand over to its preferred
// owner, which follows the shard and has caught up. It returns false if there is none, or
// while a member lives that has not done so for minUptime: it may be one that fails at every start.
func (v *view) rebalance(now time.Duration) (shard int, to member, ok bool) {
	if slices.ContainsFunc(v.members, func(m observed) bool { return now-m.first < minUptime }) {
		return 0, member{}, false
	}
	for shard := range v.unowned {
		owner, has := v.owner(shard)
		if !has || owner.Instance != v.self {
			continue
		}
		first, has := v.preferred(shard)
		if has && first.Instance != v.self && v.ready(shard, first.member) {
			return shard, first.member, true
		}
	}
	return 0, member{}, false
}

// ready reports whether m can take the shard as soon as its owner releases it.
func (v *view) ready(shard int, m member) bool {
	r, ok := m.report(shard)
	return ok && r.Role == roleFollower && r.CaughtUp
}

const (
	// minUptime is how long all members must have lived before shards are handed over to their
	// preferred owners, and handoverInterval how far apart that happens.
	minUptime        = 30 * time.Second
	handoverInterval = 10 * time.Second
)

// balance hands shards over to their preferred owners, until ctx is done: one shard
// at a time, and only when no shard has changed its owner lately.
func (n *Node) balance(ctx context.Context) {
	var owners map[int]string
	var moved time.Duration
	for sleep(ctx, n.o.Clock, n.o.Term/3, nil) {
		v, now := n.members.current(), n.o.Clock.Now()
		if seen := v.owners(); !maps.Equal(seen, owners) {
			owners, moved = seen, now
		}
		if now-moved < handoverInterval {
			continue
		}
		if shard, to, ok := v.rebalance(now); ok {
			moved = now
			n.o.Log.Info("the shard is handed over to its preferred owner", "shard", configs.ShardName(shard), "to", to.ID)
			n.shards[shard].handOver()
		}
	}
}

// owners returns the instance that owns each shard that has an owner.
func (v *view) owners() map[int]string {
	owners := make(map[int]string)
	for shard := range v.unowned {
		if owner, has := v.owner(shard); has {
			owners[shard] = owner.Instance
		}
	}
	return owners
}

// Handover hands over a shard that this member owns, or all of them, and returns when other
// members own them. From then on this member takes them only if nobody else can, until it
// starts again. It returns admin.ErrUnknown if the shard or the member does not exist, and
// another error if this member is not the owner, or no other member becomes ready within a term
// and a quarter, as long as what the others publish may be late.
func (n *Node) Handover(ctx context.Context, what admin.Handover) error {
	v := n.members.current()
	shards, err := n.toHandOver(v, what)
	if err != nil {
		return err
	}
	owned := slices.DeleteFunc(slices.Clone(shards), func(s *shard) bool { return !s.owned() })
	if err := n.awaitSuccessors(ctx, owned); err != nil {
		return err
	}
	for _, s := range shards {
		s.setYields()
	}
	n.members.publishSoon()
	for _, s := range owned {
		s.handOver()
	}
	for _, s := range owned {
		for n.members.current().ownedByOther(s.number) == "" {
			if !sleep(ctx, n.o.Clock, n.o.tick(), nil) {
				return fmt.Errorf("hand over shard %s: no other member owns it yet: %w", configs.ShardName(s.number), context.Cause(ctx))
			}
		}
	}
	return nil
}

// awaitSuccessors waits until another member is ready to take each of the shards that this one
// still owns. It returns an error if that takes longer than a term and a quarter.
func (n *Node) awaitSuccessors(ctx context.Context, shards []*shard) error {
	for began := n.o.Clock.Now(); ; {
		v := n.members.current()
		i := slices.IndexFunc(shards, func(s *shard) bool { return s.owned() && !v.successor(s.number) })
		if i < 0 {
			return nil
		}
		err := fmt.Errorf("hand over shard %s: no other member follows it and has caught up; wait until 'ndrbridge cluster status' shows a follower whose BEHIND is 0, then repeat it", configs.ShardName(shards[i].number))
		if n.o.Clock.Now()-began >= n.o.gone(n.o.Term) {
			return err
		}
		if !sleep(ctx, n.o.Clock, n.o.tick(), nil) {
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// toHandOver returns the shards that are meant.
func (n *Node) toHandOver(v *view, what admin.Handover) ([]*shard, error) {
	if what.Shard == nil {
		if what.Member == n.o.Member {
			return n.shards, nil
		}
		for _, m := range v.members {
			if m.ID == what.Member {
				return nil, fmt.Errorf("hand over the shards of member %s: ask that member", m.ID)
			}
		}
		return nil, fmt.Errorf("%w member %q", admin.ErrUnknown, what.Member)
	}
	number := *what.Shard
	if number < 0 || number >= len(n.shards) {
		return nil, fmt.Errorf("%w shard %d: the cluster has 00 to %s", admin.ErrUnknown, number, configs.ShardName(len(n.shards)-1))
	}
	if s := n.shards[number]; s.owned() {
		return []*shard{s}, nil
	}
	if owner := v.ownedByOther(number); owner != "" {
		return nil, fmt.Errorf("hand over shard %s: member %s owns it; ask that member", configs.ShardName(number), owner)
	}
	return nil, fmt.Errorf("hand over shard %s: it has no owner, so there is nothing to hand over; see 'ndrbridge cluster status'", configs.ShardName(number))
}

// successor reports whether another member can take the shard as soon as it is released.
func (v *view) successor(shard int) bool {
	for _, m := range v.candidates(shard) {
		if m.Instance != v.self && v.ready(shard, m) {
			return true
		}
	}
	return false
}

// ownedByOther returns the other member that owns the shard; empty: none.
func (v *view) ownedByOther(shard int) string {
	if owner, has := v.owner(shard); has && owner.Instance != v.self {
		return owner.ID
	}
	return ""
}
