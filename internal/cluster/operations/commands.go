package operations

import (
	"context"
	"slices"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
)

// commandPage is the number of commands that a list gets from each shard at once.
const commandPage = 200

// commands lists commands. Those of different shards are in the order of their IDs, which is not
// exactly that in which they were accepted.
func (c *control) commands(ctx context.Context, r admin.CommandsRequest) (admin.CommandPage, error) {
	limit := r.Limit + 1 // to know whether there is another page
	var lists []*commandList
	for n := range c.shards.Count() {
		if r.Appliance == "" || n == c.shards.Of(r.Appliance) {
			lists = append(lists, &commandList{shard: n, after: r.After})
		}
	}
	page := max(1, min(limit, commandPage))
	var merged []checkpoint.Command
	for len(merged) < limit {
		if err := c.fill(ctx, lists, r.Filter(), page); err != nil {
			return admin.CommandPage{}, err
		}
		lists = slices.DeleteFunc(lists, func(l *commandList) bool { return len(l.next) == 0 })
		if len(lists) == 0 {
			break
		}
		first := slices.MinFunc(lists, func(a, b *commandList) int {
			if a.next[0].ID < b.next[0].ID {
				return -1
			}
			return 1
		})
		merged = append(merged, first.next[0])
		first.next = first.next[1:]
	}
	return admin.NewCommandPage(merged, r.Limit), nil
}

// commandList is the commands of one shard.
type commandList struct {
	shard int
	after uint64               // the ID after which the next page begins
	next  []checkpoint.Command // of the last page
	ended bool                 // there are no further pages
}

// fill gets the next page of those lists that have run out.
func (c *control) fill(ctx context.Context, lists []*commandList, f checkpoint.CommandFilter, page int) error {
	empty := make(map[int]*commandList)
	var numbers []int
	for _, l := range lists {
		if len(l.next) == 0 && !l.ended {
			empty[l.shard] = l
			numbers = append(numbers, l.shard)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	answers := askSome(ctx, c.shards, numbers, func(ctx context.Context, n int, s *admin.Client) ([]checkpoint.Command, error) {
		return s.Commands(ctx, f, empty[n].after, page)
	})
	for _, a := range answers {
		if a.err != nil {
			return a.err
		}
		l := empty[a.shard]
		l.next, l.ended = a.value, len(a.value) < page
		if n := len(l.next); n > 0 {
			l.after = l.next[n-1].ID
		}
	}
	return nil
}
