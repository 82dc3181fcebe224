package operations

import "context"

// Forget implements admin.Control.
func (c *Control) Forget(ctx context.Context, sink string) error {
	return failure(askAll(ctx, c.shards, func(ctx context.Context, s Shard) (struct{}, error) { return struct{}{}, s.Forget(ctx, sink) }))
}

// Rename implements admin.Control.
func (c *Control) Rename(ctx context.Context, sink, to string) error {
	return failure(askAll(ctx, c.shards, func(ctx context.Context, s Shard) (struct{}, error) { return struct{}{}, s.Rename(ctx, sink, to) }))
}

// ForgetAppliance implements admin.Control.
func (c *Control) ForgetAppliance(ctx context.Context, name string) error {
	n := c.shards.Of(name)
	return inShard(n, c.shards.Shard(n).ForgetAppliance(ctx, name))
}

// ForgetIdentity implements admin.Control.
func (c *Control) ForgetIdentity(ctx context.Context, name string) error {
	n := c.shards.Of(name)
	return inShard(n, c.shards.Shard(n).ForgetIdentity(ctx, name))
}
