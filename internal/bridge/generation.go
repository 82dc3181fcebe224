package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/lease"
	"ndrbridge/internal/pipeline/endpoint"
)

// Init creates the cluster of a configuration: its streams and the first generation of
// its log, with the state file at the path adopt; empty: with an empty state. No process may have
// the file open; it is not changed. written is called after each record with the bytes of all so far.
// Init returns an error that says what to do if the cluster is not new or this machine has a copy
// of it.
func Init(ctx context.Context, config *configs.Config, adopt string, written func(bytes int64)) error {
	if adopt != config.State {
		if _, err := os.Stat(config.State); err == nil {
			return fmt.Errorf("%s exists: to make it the state of the cluster, use 'ndrbridge cluster init --adopt'; if it is a copy of the cluster and NATS lost its data, 'ndrbridge cluster recover'; for an empty cluster, move it away on all members", config.State)
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	var state replicated.Dumper // nil: an empty one
	if adopt != "" {
		store, err := checkpoint.Open(adopt, checkpoint.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		defer store.Close()
		state = store
	}
	g, end, err := generations(ctx, config.Cluster)
	if err != nil {
		return err
	}
	defer end()
	return g.Init(ctx, state, written)
}

// generations connects to the NATS servers of a cluster.
func generations(ctx context.Context, c *configs.Cluster) (g cluster.Generations, end func(), err error) {
	conn, err := endpoint.ConnectCluster(ctx, c, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return g, nil, err
	}
	o := storageOptions(c)
	storage, err := replicated.OpenJetStream(ctx, conn.Conn, o)
	if err != nil {
		conn.Close()
		return g, nil, err
	}
	g = cluster.Generations{
		Name: c.Name, Registry: storage, Storage: openStorage(storage), Clock: lease.System(), Term: time.Duration(c.Lease),
	}
	return g, func() {
		storage.Close()
		conn.Close()
	}, nil
}

// Recovery is a recovery of a cluster from a copy.
type Recovery struct {
	Path               string // of the copy
	Generation, Offset uint64 // up to message Offset of this generation of the log
	Current, Last      uint64 // the generation in use and its last message; 0: there is none
	Next               uint64 // the generation that was begun; 0: none yet
}

// Recover begins the next generation of a cluster's log with the copy at path, which no process may
// have open. Messages that the copy lacks are lost. Recover creates what NATS has lost. Before it
// creates or changes anything, it calls confirm, and returns the error of confirm.
func Recover(ctx context.Context, config *configs.Config, path string, confirm func(Recovery) error) (Recovery, error) {
	r := Recovery{Path: path}
	if _, err := os.Stat(path); err != nil {
		return r, err
	}
	file, err := checkpoint.OpenReplica(path, -1)
	if err != nil {
		return r, err
	}
	g, end, err := generations(ctx, config.Cluster)
	if err != nil {
		return r, errors.Join(err, file.Close())
	}
	defer end()
	of := func(s cluster.Successor) Recovery {
		return Recovery{Path: path, Generation: s.Copy.Generation, Offset: s.Offset, Current: s.Current, Last: s.Last, Next: s.Next}
	}
	s, err := g.Continue(ctx, file, func(s cluster.Successor) error { return confirm(of(s)) })
	return of(s), errors.Join(err, file.Close())
}
