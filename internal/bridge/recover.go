package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/lease"
	"ndrbridge/internal/pipeline/endpoint"
)

// recoveredSuffix is added to the name of a copy from which a shard was recovered.
const recoveredSuffix = ".recovered"

// Recovery describes the recovery of a shard. The caller of Recover sets Shard and Path.
type Recovery struct {
	Shard int
	// Path is the file of a copy of the shard's state, up to message Offset of its log.
	Path   string
	Offset uint64
	Last   uint64 // sequence number of the last message of the log; 0: it is empty
	Kept   string // new name of the file; empty: the shard was not recovered

	replica *checkpoint.Replica
	log     replicated.Stream
}

// Recover continues the logs of shards that no member owns, each from the copy at its Path, which
// no process may have open. Messages that a copy lacks are lost. Recover creates streams and a
// bucket that NATS has lost. Before it appends anything, it sets Offset and Last, calls confirm,
// and returns the error of confirm. It renames the files afterwards, because members restore the
// state from NATS. After an error, the shards with Kept are recovered.
func Recover(ctx context.Context, config *configs.Config, shards []*Recovery, confirm func() error) (err error) {
	defer func() {
		for _, r := range shards {
			err = errors.Join(err, r.close())
		}
	}()
	id := ""
	for _, r := range shards {
		if err := r.open(); err != nil {
			return err
		}
		switch of := replicated.ClusterOf(r.replica.At()); {
		case of == "":
			return fmt.Errorf("%s is empty or belongs to no cluster: use the copy of another member, or of a backup", r.Path)
		case id != "" && of != id:
			return fmt.Errorf("%s is a copy of the cluster %q, not of %q like the others: use copies of one cluster", r.Path, of, id)
		default:
			id = of
		}
	}
	c := config.Cluster
	conn, storage, err := openCluster(ctx, c)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer storage.Close()
	err = each(shards, func(r *Recovery) (err error) {
		r.log = storage.Stream(r.Shard)
		r.Last, err = cluster.Quiet(ctx, r.log, lease.System(), time.Duration(c.Lease))
		return err
	})
	if err == nil {
		err = confirm()
	}
	if err == nil {
		err = cluster.Resume(ctx, cluster.NewKV(storage.Bucket(), endpoint.HideCluster(c)), c.Name, c.Shards, checkpoint.Layout, id)
	}
	if err != nil {
		return err
	}
	return each(shards, func(r *Recovery) error {
		err := replicated.Recover(ctx, r.log, storage.Snapshots(r.Shard), r.replica, replicated.RecoverOptions{
			Options: replicated.Options{Context: ctx, Owner: "recovery-" + rand.Text(), Clock: lease.System()},
			Last:    r.Last, Wall: time.Now(),
		})
		if err == nil {
			r.Kept = r.Path + recoveredSuffix
		}
		return err
	})
}

// each calls do for all shards concurrently, because each call takes longer than a lease.
func each(shards []*Recovery, do func(*Recovery) error) error {
	errs := make([]error, len(shards))
	var all sync.WaitGroup
	for i, r := range shards {
		all.Go(func() {
			if err := do(r); err != nil {
				errs[i] = fmt.Errorf("shard %s: %w", configs.ShardName(r.Shard), err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// open opens the copy.
func (r *Recovery) open() (err error) {
	if _, err := os.Stat(r.Path); err != nil {
		return err
	}
	if r.replica, err = checkpoint.OpenReplica(r.Path, -1); err != nil {
		return err
	}
	r.Offset = r.replica.At().Offset
	return nil
}

// close closes the copy and, if the shard is recovered, renames its file.
func (r *Recovery) close() error {
	if r.replica == nil {
		return nil
	}
	if err := r.replica.Close(); err != nil || r.Kept == "" {
		return err
	}
	if err := checkpoint.Rename(r.Path, r.Kept); err != nil {
		return fmt.Errorf("the shard is recovered, but %s could not be renamed: remove it, because members must not use it: %w", r.Path, err)
	}
	return nil
}
