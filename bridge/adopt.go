package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/cluster"
	"ndrbridge/cluster/lease"
	"ndrbridge/configs"
	"ndrbridge/pipeline/endpoint"
)

// Adopt makes the state file at path, which no process may have open, the state of the new
// cluster of a configuration. It creates the cluster's streams. written is called after each
// record with the bytes of all so far. The file is not changed.
//
// Adopt returns an error that says what to do if sinks have yet to receive events of the
// state, or the cluster is not new.
func Adopt(ctx context.Context, config *configs.Config, path string, written func(bytes int64)) error {
	c := config.Cluster
	// Before anything is created.
	count := func(int, []byte) error { return ctx.Err() }
	if err := split(ctx, path, c.Shards, count); err != nil {
		return err
	}
	conn, err := endpoint.ConnectCluster(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer conn.Close()
	storage, err := replicated.OpenJetStream(ctx, conn.Conn, replicated.JetStreamOptions{Name: c.Name, Shards: c.Shards, Replicas: c.Replicas})
	if err != nil {
		return err
	}
	defer storage.Close()
	return cluster.Adopt(ctx, cluster.NewKV(storage.Bucket()), c.Name, c.Shards, checkpoint.Layout, func() error {
		return fill(ctx, storage, path, c, written)
	})
}

func split(ctx context.Context, path string, shards int, yield func(shard int, record []byte) error) error {
	return checkpoint.Split(ctx, path, func(appliance string) int { return configs.ShardOf(appliance, shards) }, shards, yield)
}

// fill writes the state at path to the logs of all shards, which must be empty.
func fill(ctx context.Context, storage *replicated.JetStream, path string, c *configs.Cluster, written func(bytes int64)) error {
	owner, clock := "adoption-"+rand.Text(), lease.System()
	logs := make([]*replicated.Log, c.Shards)
	for n := range logs {
		log, err := replicated.Take(ctx, storage.Stream(n), 0, replicated.Options{Context: ctx, Owner: owner, Clock: clock})
		if errors.Is(err, checkpoint.ErrNotOwner) {
			err = fmt.Errorf("its log is not empty: delete the stream NDR_%s_%s, or choose another cluster.name: %w", c.Name, configs.ShardName(n), err)
		}
		if err != nil {
			return fmt.Errorf("shard %s: %w", configs.ShardName(n), err)
		}
		logs[n] = log
	}
	bytes := int64(0)
	err := split(ctx, path, c.Shards, func(n int, record []byte) error {
		if _, err := logs[n].Append(record); err != nil {
			return fmt.Errorf("shard %s: %w", configs.ShardName(n), err)
		}
		bytes += int64(len(record))
		written(bytes)
		return nil
	})
	for n, log := range logs {
		if err == nil {
			if err = log.Release(ctx); err != nil {
				err = fmt.Errorf("shard %s: %w", configs.ShardName(n), err)
			}
		}
	}
	return err
}
