package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/lease"
	"ndrbridge/internal/natswire"
	"ndrbridge/internal/pipeline/endpoint"
)

// Init creates the cluster of a configuration: its streams, and an empty log for each shard. It
// returns an error that says what to do if the cluster is not new or this machine has a copy of
// it.
func Init(ctx context.Context, config *configs.Config) error {
	return create(ctx, config, nothing)
}

// Adopt makes the state file at path, which no process may have open, the state of the new
// cluster of a configuration. It creates the cluster's streams. written is called after each
// record with the bytes of all so far. The file is not changed.
//
// Adopt returns an error that says what to do if sinks have yet to receive events of the
// state, or the cluster is not new.
func Adopt(ctx context.Context, config *configs.Config, path string, written func(bytes int64)) error {
	shards := config.Cluster.Shards
	split := func(yield func(shard int, record []byte) error) error {
		return checkpoint.Split(ctx, path, func(appliance string) int { return configs.ShardOf(appliance, shards) }, shards, yield)
	}
	// Before anything is created.
	if err := split(func(int, []byte) error { return ctx.Err() }); err != nil {
		return err
	}
	bytes := int64(0)
	return create(ctx, config, func(yield func(shard int, record []byte) error) error {
		return split(func(shard int, record []byte) error {
			if err := yield(shard, record); err != nil {
				return err
			}
			bytes += int64(len(record))
			written(bytes)
			return nil
		})
	})
}

// nothing yields no records.
func nothing(func(shard int, record []byte) error) error { return nil }

// create creates a cluster whose logs contain the records of a state.
func create(ctx context.Context, config *configs.Config, state func(yield func(shard int, record []byte) error) error) error {
	c := config.Cluster
	for n := range c.Shards {
		path := config.Shard(n).State
		if _, err := os.Stat(path); err == nil {
			return fmt.Errorf("%s is a copy of a shard, so the cluster has run before: if NATS lost its data, continue from the copies with 'ndrbridge cluster recover'; for a new cluster, remove the files of the shards on all members", path)
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	conn, storage, err := openCluster(ctx, c)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer storage.Close()
	return cluster.Init(ctx, cluster.NewKV(storage.Bucket(), endpoint.HideCluster(c)), c.Name, c.Shards, checkpoint.Layout, func(id string) error {
		return fill(ctx, storage, c, id, state)
	})
}

// openCluster connects to the NATS servers of a cluster, and creates missing streams.
func openCluster(ctx context.Context, c *configs.Cluster) (*natswire.Conn, *replicated.JetStream, error) {
	conn, err := endpoint.ConnectCluster(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	storage, err := replicated.OpenJetStream(ctx, conn.Conn, replicated.JetStreamOptions{
		Name: c.Name, Shards: c.Shards, Replicas: c.Replicas, Create: true, Hide: endpoint.HideCluster(c),
	})
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, storage, nil
}

// fill begins the logs of all shards, which must be empty, with the records of a state.
func fill(ctx context.Context, storage *replicated.JetStream, c *configs.Cluster, id string, state func(yield func(shard int, record []byte) error) error) error {
	owner, clock := "init-"+rand.Text(), lease.System()
	logs := make([]*replicated.Log, c.Shards)
	for n := range logs {
		log, err := replicated.Take(ctx, storage.Stream(n), 0, replicated.Options{Context: ctx, Owner: owner, Cluster: id, Clock: clock})
		if errors.Is(err, checkpoint.ErrNotOwner) {
			err = fmt.Errorf("its log is not empty: delete the stream NDR_%s_%s, or choose another cluster.name: %w", c.Name, configs.ShardName(n), err)
		}
		if err != nil {
			return fmt.Errorf("shard %s: %w", configs.ShardName(n), err)
		}
		logs[n] = log
	}
	err := state(func(n int, record []byte) error {
		if _, err := logs[n].Append(record); err != nil {
			return fmt.Errorf("shard %s: %w", configs.ShardName(n), err)
		}
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
