package cluster

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/lease"
)

// Options configure a Node. All members of a cluster have the same Name, and the same Term but
// while it is changed by restarting one after the other.
type Options struct {
	Name   string // of the cluster
	Member string // this one's name, unique in the cluster
	// Term is cluster.lease: how long a member owns the log after its last record.
	Term  time.Duration
	Clock lease.Clock // nil: that of this machine

	Registry Registry
	Storage  OpenStorage
	// Peers returns what the members that can be reached say of themselves, this one included.
	Peers func(ctx context.Context) ([]Report, error)
	// Path is the path of the copy of the state.
	Path string
	// OpenReplica opens the copy to follow the log; nil: checkpoint.OpenReplica.
	OpenReplica func(path string) (Replica, error)

	// Own does the work of the owner until ctx is cancelled, which asks for a clean stop, or its
	// state fails. When it returns nothing is sent any more. It returns nil only if everything
	// stopped cleanly and the state is closed; an error that wraps checkpoint.ErrNotOwner if another
	// member owns the log; any other error keeps this member from owning it for a while. Own
	// does not log its error.
	Own func(ctx context.Context, o Ownership) error
	// StopTimeout is how long a clean stop may take. After that the appends that still
	// wait for the servers are given up.
	StopTimeout time.Duration

	// Ill reports whether the owner reaches nothing of what it polls and delivers to; nil: it is
	// never asked.
	Ill func() bool
	// Probe returns an error unless this member reaches all of that; nil if Ill is nil.
	Probe func(ctx context.Context) error

	Archive Archive

	// What the other members see of this one.
	Version         string
	ConfigHash, URL func() string

	Log     *slog.Logger
	Metrics *Metrics

	// What tests replace.
	files     files
	snapshots replicated.SnapshotterOptions
	follow    func(s replicated.Stream, r replicated.Replica, o replicated.FollowerOptions) follower
}

// Storage is what the servers store of a generation: its log and its snapshots.
type Storage struct {
	Stream    replicated.Stream
	Snapshots replicated.Snapshots
}

// OpenStorage opens the storage of a generation, or makes it if create is set. A generation that
// is missing is an error that wraps replicated.ErrLogLost.
type OpenStorage func(ctx context.Context, generation uint64, create bool) (Storage, error)

// Replica is a copy of the state that follows the log. *checkpoint.Replica implements it.
type Replica interface {
	replicated.Replica
	// Close leaves a file that Own can open.
	Close() error
}

// Ownership is what Own needs to know about the log that this member owns.
type Ownership struct {
	Log   checkpoint.Log // of the state, whose file has everything that the log has
	Renew time.Duration  // longest time without an append
	// Lease is how long Own may act outside of the bridge. It ends at the latest when Own
	// returns.
	Lease *lease.Lease
	// Snapshots makes snapshots of the state, which *checkpoint.Store is, until ctx is done,
	// as long as no standby does: without them the log grows for ever. Own runs it beside
	// the state, and waits for it before it closes the state.
	Snapshots func(ctx context.Context, state replicated.Dumper)
	// Archives writes archives with backup, which writes a copy of the state, until ctx is done.
	// Own runs it beside the state; nil: none are configured.
	Archives func(ctx context.Context, backup func(ctx context.Context, to io.Writer) error)
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
// longer than this and the member's own may still act when gone has passed.
const unknownTerm = time.Minute

// gone is how long after the last message of an owner, by this member's clock, its lease is over.
// term is the owner's, which may differ from the member's own; 0: not known.
func gone(term, own time.Duration) time.Duration {
	return lease.Gone(max(cmp.Or(term, unknownTerm), own))
}

// step is how long a member waits before it tries again what another one was asked for.
func (o *Options) step() time.Duration { return o.Term / 4 }

// tick is how often a member looks at its situation.
func (o *Options) tick() time.Duration { return o.Term / 60 }
