package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/cluster"
	"ndrbridge/cluster/lease"
	"ndrbridge/configs"
	"ndrbridge/pipeline/endpoint"
)

// recoveredSuffix is added to the name of a copy from which a shard was recovered.
const recoveredSuffix = ".recovered"

// Recovery is what Recover is about to do.
type Recovery struct {
	Shard int
	// Path is the file of a copy of the shard's state, up to message Offset of its log.
	Path   string
	Offset uint64
	Last   uint64 // sequence number of the last message of the log
}

// Recover continues the log of a shard that no member owns from the copy in a file, which no
// process may have open: what the log has beyond the copy is lost. It first calls confirm,
// whose error it returns. It renames the file afterwards and returns its new name: members
// restore the state from NATS.
func Recover(ctx context.Context, config *configs.Config, shard int, path string, confirm func(Recovery) error) (kept string, err error) {
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	replica, err := checkpoint.OpenReplica(path, checkpoint.ReplicaOptions{LockWait: -1})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, closed(replica, path, kept)) }()
	c := config.Cluster
	conn, err := endpoint.ConnectCluster(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	storage, err := replicated.OpenJetStream(ctx, conn.Conn, replicated.JetStreamOptions{Name: c.Name, Shards: c.Shards, Replicas: c.Replicas})
	if err != nil {
		return "", err
	}
	defer storage.Close()
	log := storage.Stream(shard)
	last, err := cluster.Quiet(ctx, log, lease.System(), time.Duration(c.Lease))
	if err != nil {
		return "", err
	}
	if err := confirm(Recovery{Shard: shard, Path: path, Offset: replica.Offset(), Last: last}); err != nil {
		return "", err
	}
	err = replicated.Recover(ctx, log, storage.Snapshots(shard), replica, replicated.RecoverOptions{
		Options: replicated.Options{Context: ctx, Owner: "recovery-" + rand.Text(), Clock: lease.System()},
		Force:   true, Last: last, Wall: time.Now(),
	})
	if err != nil {
		return "", err
	}
	return path + recoveredSuffix, nil
}

// closed closes the replica at path and, if kept is not empty, renames its file to that.
func closed(r *checkpoint.Replica, path, kept string) error {
	if err := r.Close(); err != nil || kept == "" {
		return err
	}
	if err := checkpoint.Rename(path, kept); err != nil {
		return fmt.Errorf("the shard is recovered, but %s could not be renamed: remove it, because members must not use it: %w", path, err)
	}
	return nil
}
