package pipeline

import (
	"context"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/lease"
)

// Shard is the part of a cluster's work that a pipeline does. The configuration must be
// that of the shard.
type Shard struct {
	Number int // from 0
	Of     int // number of shards of the cluster
	// Log and Renew are those of the state; see checkpoint.Options.
	Log   checkpoint.Log
	Renew time.Duration
	// Lease bounds everything that the pipeline sends. The pipeline ends it when its state
	// fails, because nothing it sends then could be recorded.
	Lease *lease.Lease
	// Snapshots makes snapshots of the state until ctx is done; nil: none are made.
	Snapshots func(ctx context.Context, state *checkpoint.Store)
}

// name returns the shard's number as it is shown, or "" if s is nil.
func (s *Shard) name() string {
	if s == nil {
		return ""
	}
	return configs.ShardName(s.Number)
}

// lease returns the lease that bounds what is sent. It is nil outside a cluster.
func (s *Shard) lease() *lease.Lease {
	if s == nil {
		return nil
	}
	return s.Lease
}

// state returns the options of the state.
func (s *Shard) state(config *configs.Config) checkpoint.Options {
	o := checkpoint.Options{Limits: limits(config)}
	if s != nil {
		o.Log, o.Renew = s.Log, s.Renew
		o.Commands = checkpoint.IDs{Shard: uint64(s.Number), Of: uint64(s.Of)}
	}
	return o
}
