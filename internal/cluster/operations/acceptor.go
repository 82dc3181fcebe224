package operations

import (
	"context"
	"fmt"
	"slices"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/tickets"
)

// NewAcceptor returns an Acceptor of ticket commands for the appliances of all shards,
// which the owners of the shards store. o.Locate is replaced.
//
// A command without an appliance is located by asking all shards: first their states, then
// the appliances. A shard that knows the detection or ticket wins; if none does and some
// cannot be asked, Accept fails with admin.ErrUnavailable.
//
// Commands for several shards are stored shard by shard. If that fails half-way, the error
// is temporary, and the repetition of the call with its key completes it. Without a key
// such a call is refused with a *tickets.FieldError.
func NewAcceptor(shards shards, o tickets.AcceptorOptions) *tickets.Acceptor {
	o.Locate = func(ctx context.Context, c tickets.Command) ([]string, error) { return locate(ctx, shards, c) }
	return tickets.NewAcceptor(shardStores{shards}, o)
}

// locate returns the appliances that know the detection or ticket of a command.
func locate(ctx context.Context, shards shards, c tickets.Command) ([]string, error) {
	for _, ask := range []bool{false, true} {
		var names []string
		answers := askAll(ctx, shards, func(ctx context.Context, s *admin.Client) ([]string, error) {
			return admin.API.Locate.Call(ctx, s, admin.LocateRequest{Command: c, Ask: ask})
		})
		for _, a := range answers {
			names = append(names, a.value...)
		}
		if len(names) > 0 {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
		if err := missing(answers); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// shardStores stores commands in the shards of their appliances.
type shardStores struct{ shards shards }

// Accept implements tickets.AcceptorStore.
func (s shardStores) Accept(ctx context.Context, commands []checkpoint.Command) ([]checkpoint.Acceptance, error) {
	byShard := make(map[int][]int) // indexes of commands
	var order []int
	for i, c := range commands {
		n := s.shards.Of(c.Appliance)
		if byShard[n] == nil {
			order = append(order, n)
		}
		byShard[n] = append(byShard[n], i)
		if len(order) > 1 && c.Key == "" {
			return nil, &tickets.FieldError{Index: i, Problem: fmt.Sprintf("appliance %s is in another shard of the cluster than %s: "+
				"send the list with an Idempotency-Key, so that it can be repeated if only a part was stored, or send the commands one by one",
				c.Appliance, commands[0].Appliance)}
		}
	}
	acceptances := make([]checkpoint.Acceptance, len(commands))
	for _, n := range order {
		var part []checkpoint.Command
		for _, i := range byShard[n] {
			part = append(part, commands[i])
		}
		accepted, err := admin.API.Accept.Call(ctx, s.shards.Shard(n), admin.AcceptRequest{Commands: part})
		if err == nil && len(accepted) != len(part) {
			err = fmt.Errorf("%d acceptances of %d commands", len(accepted), len(part))
		}
		if err != nil {
			return nil, inShard(n, err)
		}
		for at, i := range byShard[n] {
			acceptances[i] = accepted[at]
		}
	}
	return acceptances, nil
}
