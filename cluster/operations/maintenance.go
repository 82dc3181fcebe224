package operations

import (
	"context"

	"ndrbridge/admin"
)

var _ admin.Maintainer = (*Control)(nil)

// Forget implements admin.Maintainer.
func (c *Control) Forget(ctx context.Context, sink string) error {
	return failure(askAll(ctx, c.shards, func(ctx context.Context, s Shard) (struct{}, error) { return struct{}{}, s.Forget(ctx, sink) }))
}

// Rename implements admin.Maintainer.
func (c *Control) Rename(ctx context.Context, sink, to string) error {
	return failure(askAll(ctx, c.shards, func(ctx context.Context, s Shard) (struct{}, error) { return struct{}{}, s.Rename(ctx, sink, to) }))
}

// ForgetAppliance implements admin.Maintainer.
func (c *Control) ForgetAppliance(ctx context.Context, name string) error {
	n := c.shards.Of(name)
	return inShard(n, c.shards.Shard(n).ForgetAppliance(ctx, name))
}

// ForgetIdentity implements admin.Maintainer.
func (c *Control) ForgetIdentity(ctx context.Context, name string) error {
	n := c.shards.Of(name)
	return inShard(n, c.shards.Shard(n).ForgetIdentity(ctx, name))
}
