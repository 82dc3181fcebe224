package admin

import (
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

func (h Handover) check() error {
	if (h.Member == "") == (h.Shard == nil) {
		return newProblem(http.StatusBadRequest, `name either a member or a shard: {"member": NAME} or {"shard": NUMBER}`)
	}
	return nil
}

// Recovery asks a member to continue the log of a shard from its copy of the state. Both
// fields are required.
type Recovery struct {
	Shard *int   `json:"shard"`
	From  string `json:"from"` // the member
}

func (r Recovery) check() error {
	if r.Shard == nil || r.From == "" {
		return newProblem(http.StatusBadRequest, `name a shard, and the member from whose copy it continues: {"shard": NUMBER, "from": NAME}`)
	}
	return nil
}

// errNoCluster is the answer to requests about the cluster of a bridge that has none.
var errNoCluster = newProblem(http.StatusNotFound, "this bridge is not a member of a cluster: its configuration has no cluster")
