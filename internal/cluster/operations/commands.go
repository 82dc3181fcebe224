package operations

import (
	"cmp"
	"context"
	"slices"

	"ndrbridge/internal/admin"
)

// commandPage is the maximum number of commands that a list gets from each shard.
const commandPage = 200

// commands lists commands. Those of different shards are in the order of their IDs, which is not
// exactly that in which they were accepted. A page may have fewer commands than were asked for.
func (c *control) commands(ctx context.Context, r admin.CommandsRequest) (admin.CommandPage, error) {
	shards := numbers(c.shards)
	if r.Appliance != "" {
		shards = []int{c.shards.Of(r.Appliance)}
	}
	part := r
	part.Limit = min(r.Limit, commandPage)
	answers := askSome(ctx, c.shards, shards, func(ctx context.Context, _ int, s *admin.Client) (admin.CommandPage, error) {
		return admin.API.ListTicketCommands.Call(ctx, s, part)
	})
	merged := admin.CommandPage{Commands: []admin.TicketCommand{}}
	for _, a := range answers {
		if a.err != nil {
			return admin.CommandPage{}, a.err
		}
		merged.Commands = append(merged.Commands, a.value.Commands...)
		if next := a.value.Next; next != 0 && (merged.Next == 0 || next < merged.Next) {
			merged.Next = next // later commands of the shard are missing
		}
	}
	slices.SortFunc(merged.Commands, func(a, b admin.TicketCommand) int { return cmp.Compare(a.ID, b.ID) })
	if merged.Next != 0 {
		merged.Commands = slices.DeleteFunc(merged.Commands, func(of admin.TicketCommand) bool { return of.ID > merged.Next })
	}
	if len(merged.Commands) > r.Limit {
		merged.Commands = merged.Commands[:r.Limit]
		merged.Next = merged.Commands[r.Limit-1].ID
	}
	return merged, nil
}
