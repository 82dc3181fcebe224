package cluster

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/lease"
)

// Options configure a Node. All members of a cluster have the same Name and Shards,
// and the same Term but while it is changed by restarting one after the other.
type Options struct {
	Name   string // of the cluster
	Member string // this one's name, unique in the cluster: 1 to 63 letters, digits, - and _
	Shards int
	// Term is cluster.lease: how long a member owns a shard after its last record.
	Term  time.Duration
	Clock lease.Clock // nil: that of this machine

	Registry Registry
	// Storage returns the log and the snapshots of a shard.
	Storage func(shard int) Storage
	// Path returns the path of the shard's state file.
	Path func(shard int) string
	// OpenReplica opens the file of a shard to follow its log; nil: checkpoint.OpenReplica.
	OpenReplica func(path string) (Replica, error)

	// Own runs what a shard is for until ctx is cancelled, which asks for a clean stop,
	// or its state fails. When it returns nothing is sent any more. It returns nil only if
	// everything stopped cleanly and the state is closed; an error that wraps
	// checkpoint.ErrNotOwner if another member owns the log; any other error keeps this
	// member from owning the shard for a while. Own does not log its error.
	Own func(ctx context.Context, o Ownership) error
	// StopTimeout is how long a clean stop may take. After that the appends that still
	// wait for the servers are given up.
	StopTimeout time.Duration

	// What the other members see of this one.
	Version    string
	ConfigHash func() string
	// Appliances returns the names of a shard's appliances, for operators.
	Appliances func(shard int) []string

	Log     *slog.Logger
	Metrics *Metrics

	// What tests replace.
	files     files
	snapshots replicated.SnapshotterOptions
	follow    func(s replicated.Stream, r replicated.Replica, o replicated.FollowerOptions) follower
}

// Storage is what the servers store of a shard.
type Storage struct {
	Stream    replicated.Stream
	Snapshots replicated.Snapshots
}

// Replica is a copy of a shard's state that follows its log. *checkpoint.Replica implements
// it.
type Replica interface {
	replicated.Replica
	// Close leaves a file that Own can open.
	Close() error
}

// Ownership is what Own needs to know about a shard that this member owns.
type Ownership struct {
	Shard int
	Log   checkpoint.Log // of the state, whose file has everything that the log has
	Renew time.Duration  // longest time without an append
	// Lease is how long Own may act outside of the bridge. It ends at the latest when Own
	// returns.
	Lease *lease.Lease
	// Snapshots makes snapshots of the state, which *checkpoint.Store is, until ctx is done,
	// as long as no follower does: without them the log grows for ever. Own runs it beside
	// the state, and waits for it before it closes the state.
	Snapshots func(ctx context.Context, state replicated.Dumper)
}

const lockWait = time.Second // for an owner's state that is still being closed

// withDefaults returns o with its defaults.
func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = lease.System()
	}
	if o.OpenReplica == nil {
		o.OpenReplica = func(path string) (Replica, error) {
			r, err := checkpoint.OpenReplica(path, lockWait)
			if err != nil {
				return nil, err // not a nil *Replica in a Replica
			}
			return r, nil
		}
	}
	if o.files == nil {
		o.files = disk{}
	}
	if o.follow == nil {
		o.follow = func(s replicated.Stream, r replicated.Replica, f replicated.FollowerOptions) follower {
			return replicated.NewFollower(s, r, f)
		}
	}
	return o
}

// unknownTerm is the term assumed for an owner whose term is not known. An owner whose lease is
// longer than this and Options.Term may still act when gone has passed.
const unknownTerm = time.Minute

// gone is how long after the last sign of life of another member, by this one's clock, its
// lease is over. term is the owner's, which differs while Term is changed; 0: not known.
func (o *Options) gone(term time.Duration) time.Duration {
	return lease.Gone(max(cmp.Or(term, unknownTerm), o.Term))
}

// step is how long after each other members try to take a shard.
func (o *Options) step() time.Duration { return o.Term / 4 }

// tick is how often a shard's situation is looked at.
func (o *Options) tick() time.Duration { return o.Term / 60 }
