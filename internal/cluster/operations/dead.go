package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// Keys of dead letters begin with the number of their shard: 03-KEY.

// maxBodies is the size of the bodies on a page, in bytes, after which no more are added.
const maxBodies = 1 << 20

// dead lists the dead letters of the shards, one shard after the other.
func (c *control) dead(ctx context.Context, r admin.DeadRequest) (admin.DeadPage, error) {
	page, size := admin.DeadPage{DeadLetters: []admin.DeadLetter{}}, 0
	known := false
	var unknown error
	for _, n := range c.shardsOf(r.Owner()) {
		inside, isInside := strings.CutPrefix(r.After, prefix(n))
		if !isInside && r.After > prefix(n) {
			known = true // an earlier page began in this shard or before it
			continue
		}
		part := r
		if part.After = inside; !isInside {
			part.After = "" // from the first
		}
		part.Limit -= len(page.DeadLetters)
		full := part.Limit == 0 || size >= maxBodies
		if full {
			part.Limit, part.Bodies = 1, false // whether there are more
		}
		found, err := admin.API.ListDeadLetters.Call(ctx, c.shards.Shard(n), part)
		switch {
		case errors.Is(err, admin.ErrUnknown):
			unknown = inShard(n, err)
			continue
		case err != nil:
			return admin.DeadPage{}, inShard(n, err)
		case full && len(found.DeadLetters) > 0:
			page.Next = page.DeadLetters[len(page.DeadLetters)-1].Key
			return page, nil
		}
		known = true
		for _, d := range found.DeadLetters {
			d.Key = prefix(n) + d.Key
			page.DeadLetters = append(page.DeadLetters, d)
			if r.Bodies {
				size += d.Bytes
			}
		}
		if found.Next != "" {
			page.Next = prefix(n) + found.Next
			return page, nil
		}
	}
	if !known && unknown != nil {
		return admin.DeadPage{}, unknown
	}
	return page, nil
}

// deadGroups merges the groups of the shards.
func (c *control) deadGroups(ctx context.Context, r admin.GroupsRequest) (admin.DeadGroups, error) {
	answers := askSome(ctx, c.shards, c.shardsOf(r.Owner()), func(ctx context.Context, _ int, s *admin.Client) (admin.DeadGroups, error) {
		return admin.API.GroupDeadLetters.Call(ctx, s, r)
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

func (c *control) deadLetter(ctx context.Context, r admin.OfDeadLetter) (admin.DeadLetter, error) {
	for _, n := range c.shardsOf(r.Owner()) {
		if inside, ok := strings.CutPrefix(r.Key, prefix(n)); ok {
			d, err := admin.API.GetDeadLetter.Call(ctx, c.shards.Shard(n), admin.OfDeadLetter{OfDead: r.OfDead, Key: inside})
			d.Key = r.Key
			return d, inShard(n, err)
		}
	}
	return admin.DeadLetter{}, fmt.Errorf("%w dead letter %q: keys begin with the number of a shard, such as 00-", admin.ErrUnknown, r.Key)
}

// changeDead has each shard change its dead letters of an owner.
func changeDead[Answer any](c *control, all admin.Operations, o admin.Operation[admin.Selection, Answer], add func(sum *Answer, of Answer)) {
	o.By(all, func(ctx context.Context, r admin.Selection) (sum Answer, err error) {
		among := c.shardsOf(r.Owner())
		inside := make(map[int][]string) // nil: all
		for _, n := range among {
			if r.Keys == nil {
				inside[n] = nil
				continue
			}
			for _, key := range r.Keys {
				if k, ok := strings.CutPrefix(key, prefix(n)); ok {
					inside[n] = append(inside[n], k)
				}
			}
		}
		if len(inside) == 0 { // whether the owner exists
			inside[among[0]] = []string{}
		}
		answers := askSome(ctx, c.shards, slices.Sorted(maps.Keys(inside)), func(ctx context.Context, n int, s *admin.Client) (Answer, error) {
			return o.Call(ctx, s, admin.Selection{OfDead: r.OfDead, Keys: inside[n], All: inside[n] == nil})
		})
		for _, a := range answers {
			add(&sum, a.value)
		}
		return sum, failure(answers)
	})
}

// shardsOf returns the shards that may have dead letters of an owner: all for a sink, and
// that of the appliance for a source.
func (c *control) shardsOf(owner checkpoint.Owner) []int {
	if source, ok := strings.CutPrefix(string(owner), "source/"); ok {
		appliance, _, _ := strings.Cut(source, "/")
		return []int{c.shards.Of(appliance)}
	}
	return numbers(c.shards)
}

// prefix returns the prefix of the keys of a shard's dead letters.
func prefix(shard int) string { return configs.ShardName(shard) + "-" }
