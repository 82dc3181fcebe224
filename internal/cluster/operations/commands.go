package operations

import (
	"context"
	"slices"

	"ndrbridge/checkpoint"
)

// commandPage is the number of commands that a list gets from each shard at once.
const commandPage = 200

// Commands implements admin.Control. Commands of different shards are in the order of
// their IDs, which is not exactly that in which they were accepted.
func (c *Control) Commands(ctx context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error) {
	var lists []*commandList
	for n := range c.shards.Count() {
		if f.Appliance == "" || n == c.shards.Of(f.Appliance) {
			lists = append(lists, &commandList{shard: n, after: after})
		}
	}
	page := max(1, min(limit, commandPage))
	var merged []checkpoint.Command
	for len(merged) < limit {
		if err := c.fill(ctx, lists, f, page); err != nil {
			return nil, err
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
	return merged, nil
}

// commandList is the commands of one shard.
type commandList struct {
	shard int
	after uint64               // the ID after which the next page begins
	next  []checkpoint.Command // of the last page
	ended bool                 // there are no further pages
}

// fill gets the next page of those lists that have run out.
func (c *Control) fill(ctx context.Context, lists []*commandList, f checkpoint.CommandFilter, page int) error {
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
	answers := askSome(ctx, c.shards, numbers, func(ctx context.Context, n int, s Shard) ([]checkpoint.Command, error) {
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

// ofCommand returns the shard of a command: IDs of shard n of N are n, n+N, n+2N …
func (c *Control) ofCommand(id uint64) (int, Shard) {
	n := int(id % uint64(c.shards.Count()))
	return n, c.shards.Shard(n)
}

// Command implements admin.Control.
func (c *Control) Command(ctx context.Context, id uint64) (checkpoint.Command, error) {
	n, s := c.ofCommand(id)
	command, err := s.Command(ctx, id)
	return command, inShard(n, err)
}

// RetryCommand implements admin.Control.
func (c *Control) RetryCommand(ctx context.Context, id uint64) error {
	n, s := c.ofCommand(id)
	return inShard(n, s.RetryCommand(ctx, id))
}

// DropCommand implements admin.Control.
func (c *Control) DropCommand(ctx context.Context, id uint64) error {
	n, s := c.ofCommand(id)
	return inShard(n, s.DropCommand(ctx, id))
}
