package operations

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/poller"
)

// Pause implements admin.Control.
func (c *Control) Pause(ctx context.Context, sink string) error {
	return failure(askAll(ctx, c.shards, func(ctx context.Context, s Shard) (struct{}, error) { return struct{}{}, s.Pause(ctx, sink) }))
}

// Resume implements admin.Control.
func (c *Control) Resume(ctx context.Context, sink string) error {
	return failure(askAll(ctx, c.shards, func(ctx context.Context, s Shard) (struct{}, error) { return struct{}{}, s.Resume(ctx, sink) }))
}

// Replay implements admin.Control. If it returns an error, the number is that of the
// shards that did it: a repetition queues their events once more.
func (c *Control) Replay(ctx context.Context, sink string, r admin.Replay) (uint64, error) {
	answers := askAll(ctx, c.shards, func(ctx context.Context, s Shard) (uint64, error) { return s.Replay(ctx, sink, r) })
	var sum uint64
	for _, a := range answers {
		sum += a.value
	}
	return sum, failure(answers)
}

// Rewind implements admin.Control.
func (c *Control) Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error {
	n, err := c.shardOf(source.Appliance)
	if err != nil {
		return err
	}
	return inShard(n, c.shards.Shard(n).Rewind(ctx, source, to))
}

// Detection implements admin.Control.
func (c *Control) Detection(ctx context.Context, appliance string, id int64) (admin.Detection, error) {
	n, err := c.shardOf(appliance)
	if err != nil {
		return admin.Detection{}, err
	}
	d, err := c.shards.Shard(n).Detection(ctx, appliance, id)
	for _, v := range d.Versions {
		for i := range v.Sinks {
			if of := &v.Sinks[i]; of.Key != "" {
				of.Key = prefix(n) + of.Key
			}
		}
	}
	return d, inShard(n, err)
}

// Verify implements admin.Control.
func (c *Control) Verify(ctx context.Context, appliance string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error) {
	n, err := c.shardOf(appliance)
	if err != nil {
		return nil, err
	}
	verifications, err := c.shards.Shard(n).Verify(ctx, appliance, since, report)
	return verifications, inShard(n, err)
}

// shardOf returns the shard of an appliance, or admin.ErrUnknown if the configuration does
// not have the appliance.
func (c *Control) shardOf(appliance string) (int, error) {
	var names []string
	for _, a := range c.o.Config().Appliances {
		names = append(names, a.Name)
	}
	if !slices.Contains(names, appliance) {
		return 0, fmt.Errorf("%w appliance %q: the configuration has %s", admin.ErrUnknown, appliance, strings.Join(names, ", "))
	}
	return c.shards.Of(appliance), nil
}
