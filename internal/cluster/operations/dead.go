package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// Keys of dead letters begin with the number of their shard: 03-KEY.

// Dead implements admin.Control.
func (c *Control) Dead(ctx context.Context, owner checkpoint.Owner, after string, limit int) (page []checkpoint.DeadLetter, err error) {
	known := false
	var unknown error
	for _, n := range c.shardsOf(owner) {
		if len(page) >= limit {
			break
		}
		inside, isInside := strings.CutPrefix(after, prefix(n))
		if !isInside && after > prefix(n) {
			known = true // an earlier page began in this shard or before it
			continue
		}
		if !isInside {
			inside = "" // from the first
		}
		found, err := c.shards.Shard(n).Dead(ctx, owner, inside, limit-len(page))
		switch {
		case errors.Is(err, admin.ErrUnknown):
			unknown = inShard(n, err)
			continue
		case err != nil:
			return nil, inShard(n, err)
		}
		known = true
		for _, d := range found {
			d.Key = prefix(n) + d.Key
			page = append(page, d)
		}
	}
	if !known && unknown != nil {
		return nil, unknown
	}
	return page, nil
}

// DeadGroups implements admin.Control. Each shard groups its own dead letters.
func (c *Control) DeadGroups(ctx context.Context, owner checkpoint.Owner) (admin.DeadGroups, error) {
	answers := askSome(ctx, c.shards, c.shardsOf(owner), func(ctx context.Context, _ int, s Shard) (admin.DeadGroups, error) {
		return s.DeadGroups(ctx, owner)
	})
	isUnknown := func(a answer[admin.DeadGroups]) bool { return errors.Is(a.err, admin.ErrUnknown) }
	// A shard does not know the owner if it has never had a dead letter of it.
	known := slices.DeleteFunc(slices.Clone(answers), isUnknown)
	if err := missing(known); err != nil {
		return admin.DeadGroups{}, err
	}
	if len(known) == 0 {
		return admin.DeadGroups{}, answers[0].err
	}
	var grouping admin.DeadGrouping
	for _, a := range known {
		grouping.Merge(a.value, prefix(a.shard))
	}
	return grouping.Groups(), nil
}

// DeadLetter implements admin.Control.
func (c *Control) DeadLetter(ctx context.Context, owner checkpoint.Owner, key string) (checkpoint.DeadLetter, error) {
	for _, n := range c.shardsOf(owner) {
		if inside, ok := strings.CutPrefix(key, prefix(n)); ok {
			d, err := c.shards.Shard(n).DeadLetter(ctx, owner, inside)
			d.Key = key
			return d, inShard(n, err)
		}
	}
	return checkpoint.DeadLetter{}, fmt.Errorf("%w dead letter %q: keys begin with the number of a shard, such as 00-", admin.ErrUnknown, key)
}

// Requeue implements admin.Control.
func (c *Control) Requeue(ctx context.Context, sink string, keys []string) (int, error) {
	return c.change(ctx, checkpoint.SinkOwner(sink), keys, func(ctx context.Context, s Shard, keys []string) (int, error) {
		return s.Requeue(ctx, sink, keys)
	})
}

// DropDead implements admin.Control.
func (c *Control) DropDead(ctx context.Context, owner checkpoint.Owner, keys []string) (int, error) {
	return c.change(ctx, owner, keys, func(ctx context.Context, s Shard, keys []string) (int, error) {
		return s.DropDead(ctx, owner, keys)
	})
}

// change has each shard change its dead letters of an owner and returns their number.
func (c *Control) change(ctx context.Context, owner checkpoint.Owner, keys []string, do func(context.Context, Shard, []string) (int, error)) (int, error) {
	among := c.shardsOf(owner)
	inside := make(map[int][]string) // nil: all
	for _, n := range among {
		if keys == nil {
			inside[n] = nil
			continue
		}
		for _, key := range keys {
			if k, ok := strings.CutPrefix(key, prefix(n)); ok {
				inside[n] = append(inside[n], k)
			}
		}
	}
	if len(inside) == 0 { // whether the owner exists
		inside[among[0]] = []string{}
	}
	var asked []int
	for _, n := range among {
		if _, ok := inside[n]; ok {
			asked = append(asked, n)
		}
	}
	answers := askSome(ctx, c.shards, asked, func(ctx context.Context, n int, s Shard) (int, error) { return do(ctx, s, inside[n]) })
	sum := 0
	for _, a := range answers {
		sum += a.value
	}
	return sum, failure(answers)
}

// shardsOf returns the shards that may have dead letters of an owner: all for a sink, and
// that of the appliance for a source.
func (c *Control) shardsOf(owner checkpoint.Owner) []int {
	if source, ok := strings.CutPrefix(string(owner), "source/"); ok {
		appliance, _, _ := strings.Cut(source, "/")
		return []int{c.shards.Of(appliance)}
	}
	return numbers(c.shards)
}

// prefix returns what the keys of the dead letters of a shard begin with.
func prefix(shard int) string { return configs.ShardName(shard) + "-" }
