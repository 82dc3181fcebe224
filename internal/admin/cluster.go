package admin

import (
	"context"
	"net/http"
	"time"
)

// Cluster is the state of a cluster of bridges, as seen by one of its members. Its JSON is
// as stable as that of Status.
type Cluster struct {
	Name   string `json:"name"`
	Member string `json:"member"` // the member that answered
	// Members are the live members, sorted by name.
	Members []ClusterMember `json:"members"`
	// Shards are all shards, by number.
	Shards []ClusterShard `json:"shards"`
}

// Values of ClusterMember.Config.
const (
	ConfigSame    = "same"
	ConfigDiffers = "differs"
	ConfigUnknown = "unknown" // the member has another version
)

// ClusterMember is a live member of a cluster.
type ClusterMember struct {
	Member  string    `json:"member"`
	Version string    `json:"version"`
	Since   time.Time `json:"since,omitzero"` // when it started
	Owns    []int     `json:"owns"`           // numbers of shards
	Follows []int     `json:"follows"`
	// Config compares its configuration with that of the member that answered: same,
	// differs or unknown. It does not compare secrets and the contents of files.
	Config string `json:"config"`
}

// ClusterShard is a part of the appliances, which one member at a time owns.
type ClusterShard struct {
	Shard int `json:"shard"`
	// Appliances are the names of its appliances. Shard 0 also has the bridge's own
	// events.
	Appliances []string `json:"appliances"`
	// Owner is the member that owns the shard. It is empty if the lease of the last owner
	// has ended, or if that one released the shard.
	Owner string `json:"owner,omitempty"`
	// LeaseSeconds is how long the owner's lease lasts unless it is renewed; 0: no owner.
	LeaseSeconds float64 `json:"lease_seconds,omitempty"`
	// WithoutOwnerSeconds is how long the shard has had no owner, and Next the member that
	// takes it in NextSeconds if all goes well; empty: none can.
	WithoutOwnerSeconds float64 `json:"without_owner_seconds,omitempty"`
	Next                string  `json:"next,omitempty"`
	NextSeconds         float64 `json:"next_seconds,omitempty"`
	// Followers are the members with a copy of the state other than the owner's, the
	// best candidate first.
	Followers []ClusterFollower `json:"followers"`
	// LogBytes is the size of the shard's log, and Snapshot when its newest snapshot was
	// made; absent: there is none.
	LogBytes int64     `json:"log_bytes"`
	Snapshot time.Time `json:"snapshot,omitzero"`
	// State is what the member that answered does with the shard: away, following, taking,
	// owning or releasing.
	State string `json:"state"`
	// Error is the reason if that member cannot do so.
	Error string `json:"error,omitempty"`
}

// ClusterFollower is a member that follows the log of a shard.
type ClusterFollower struct {
	Member string `json:"member"`
	// Behind counts the messages of the log that the follower has yet to apply.
	Behind uint64 `json:"behind"`
}

// Handover asks members to hand shards over. Exactly one field is set.
type Handover struct {
	// Member hands over all shards that it owns.
	Member string `json:"member,omitempty"`
	// Shard is handed over by its owner.
	Shard *int `json:"shard,omitempty"`
}

// Recovery asks a member to continue the log of a shard from its copy of the state. Both
// fields are required.
type Recovery struct {
	Shard *int   `json:"shard"`
	From  string `json:"from"` // the member
}

// ClusterControl is the set of operations that the API offers on a cluster. Its methods
// return ErrUnknown if the member or shard does not exist.
type ClusterControl interface {
	// Cluster returns the state of the cluster.
	Cluster(ctx context.Context) (Cluster, error)
	// Handover stops the pipelines of the shards cleanly and lets the next member take
	// them. It returns when that member owns them, and an error if no other member
	// follows one of them and catches up soon.
	Handover(ctx context.Context, what Handover) error
	// Recover continues the log of a shard from the copy of a member, which has as much of it
	// as the member can read. What the log has beyond that is lost. It returns when the shard
	// can be owned again, and an error if a member owns it.
	Recover(ctx context.Context, what Recovery) error
}

// errNoCluster is the answer to requests about the cluster of a bridge that has none.
var errNoCluster = newProblem(http.StatusNotFound, "this bridge is not a member of a cluster: its configuration has no cluster")

// cluster returns the cluster of the bridge, or errNoCluster.
func (o Options) cluster() (ClusterControl, error) {
	if o.Cluster != nil {
		if c := o.Cluster(); c != nil {
			return c, nil
		}
	}
	return nil, errNoCluster
}

// status returns the status of the bridge, with that of its cluster.
func (o Options) status(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	status, err := c.Status(r.Context())
	if err != nil {
		return nil, err
	}
	status.ReadOnly = admissionOf(r).readOnly
	if cluster, err := o.cluster(); err == nil {
		seen, err := cluster.Cluster(r.Context())
		if err != nil {
			return nil, err
		}
		status.Cluster = &seen
	}
	if o.Reload != nil {
		status.Reload = o.Reload()
	}
	return status, nil
}

func (o Options) showCluster(_ Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	return cluster.Cluster(r.Context())
}

func (o Options) handOver(_ Control, w http.ResponseWriter, r *http.Request) (any, error) {
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	what, err := readRequest[Handover](w, r)
	if err != nil {
		return nil, err
	}
	if (what.Member == "") == (what.Shard == nil) {
		return nil, newProblem(http.StatusBadRequest, `name either a member or a shard: {"member": NAME} or {"shard": NUMBER}`)
	}
	return changed(cluster.Handover(r.Context(), what))
}

func (o Options) recoverShard(_ Control, w http.ResponseWriter, r *http.Request) (any, error) {
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	what, err := readRequest[Recovery](w, r)
	if err != nil {
		return nil, err
	}
	if what.Shard == nil || what.From == "" {
		return nil, newProblem(http.StatusBadRequest, `name a shard, and the member from whose copy it continues: {"shard": NUMBER, "from": NAME}`)
	}
	return changed(cluster.Recover(r.Context(), what))
}

var _ ClusterControl = (*Client)(nil)

// Cluster implements ClusterControl.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	return ask[Cluster](ctx, c, get("cluster"))
}

// Handover implements ClusterControl.
func (c *Client) Handover(ctx context.Context, what Handover) error {
	return c.do(ctx, post(what, "cluster", "handover"))
}

// Recover implements ClusterControl.
func (c *Client) Recover(ctx context.Context, what Recovery) error {
	return c.do(ctx, post(what, "cluster", "recover"))
}
