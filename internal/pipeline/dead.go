package pipeline

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
)

// maxGrouped is the maximum number of dead letters that one request reads to group them.
const maxGrouped = 100_000

// deadGroups groups dead letters. If there are more than maxGrouped dead letters, it
// reads an equal number of each owner, or fewer if an owner has fewer: those with the first
// keys.
func (p *operator) deadGroups(ctx context.Context, r admin.GroupsRequest) (admin.DeadGroups, error) {
	owner := r.Owner()
	if owner != "" {
		if err := p.checkOwner(ctx, owner); err != nil {
			return admin.DeadGroups{}, err
		}
	}
	stats, err := p.store.Stats(ctx)
	if err != nil {
		return admin.DeadGroups{}, err
	}
	counts := stats.DeadLetters
	owners := slices.SortedFunc(maps.Keys(counts), func(a, b checkpoint.Owner) int {
		return cmp.Or(cmp.Compare(counts[a].Count, counts[b].Count), cmp.Compare(a, b))
	})
	if owner != "" {
		owners = []checkpoint.Owner{owner}
	}
	var grouping admin.DeadGrouping
	left := maxGrouped
	for i, o := range owners { // those with the fewest first: they leave some of their share
		grouping.AddTotal(counts[o].Count)
		read, err := p.groupDead(ctx, &grouping, o, left/(len(owners)-i))
		if err != nil {
			return admin.DeadGroups{}, err
		}
		left -= read
	}
	return grouping.Groups(), nil
}

// groupDead adds at most limit dead letters of an owner, and returns their number.
func (p *operator) groupDead(ctx context.Context, grouping *admin.DeadGrouping, o checkpoint.Owner, limit int) (read int, err error) {
	const page = 1000 // a long transaction would keep space in the file from being used again
	for after := ""; read < limit; {
		heads, err := p.store.DeadHeads(ctx, o, after, min(page, limit-read))
		if err != nil || len(heads) == 0 {
			return read, err
		}
		for _, d := range heads {
			grouping.Add(o, d)
			after = d.Key
		}
		read += len(heads)
	}
	return read, nil
}
