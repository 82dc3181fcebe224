package admin

import (
	"net/http"
	"time"
)

// Cluster is the state of a cluster of bridges, as seen by one of its members.
type Cluster struct {
	Name    string          `json:"name"`    // its name
	Member  string          `json:"member"`  // the member that answered
	Members []ClusterMember `json:"members"` // the live members, by name
	Shards  []ClusterShard  `json:"shards"`  // the shards, by number
}

// Values of ClusterMember.Config.
const (
	ConfigSame    = "same"
	ConfigDiffers = "differs"
	ConfigUnknown = "unknown" // the member has another version
)

// ClusterMember is a live member of a cluster.
type ClusterMember struct {
	Member  string    `json:"member"`         // its name
	Version string    `json:"version"`        // the version of its program
	Since   time.Time `json:"since,omitzero"` // when it started
	Owns    []int     `json:"owns"`           // numbers of the shards that it owns
	Follows []int     `json:"follows"`        // numbers of the shards of which it has a copy
	// Its configuration, without secrets and the contents of files, compared with that of the member
	// that answered: same, differs, or unknown if it has another version.
	Config string `json:"config"`
}

// ClusterShard is a part of the appliances, which one member at a time owns.
type ClusterShard struct {
	Shard      int      `json:"shard"`           // its number
	Appliances []string `json:"appliances"`      // the names of its appliances
	Owner      string   `json:"owner,omitempty"` // the member that owns it; absent if none does
	// How long the owner's lease lasts unless it is renewed.
	LeaseSeconds        float64 `json:"lease_seconds,omitempty"`
	WithoutOwnerSeconds float64 `json:"without_owner_seconds,omitempty"` // how long it has had no owner
	Next                string  `json:"next,omitempty"`                  // the member that takes it; absent if none can
	NextSeconds         float64 `json:"next_seconds,omitempty"`          // when that member takes it if all goes well
	// The other members with a copy of its state, the best candidate first.
	Followers []ClusterFollower `json:"followers"`
	LogBytes  int64             `json:"log_bytes"` // the size of its log
	// When its newest snapshot was made; absent if there is none.
	Snapshot time.Time `json:"snapshot,omitzero"`
	// What the member that answered does with it: away, following, taking, owning or releasing.
	State string `json:"state"`
	Error string `json:"error,omitempty"` // why that member cannot do so
}

// ClusterFollower is a member that follows the log of a shard.
type ClusterFollower struct {
	Member string `json:"member"` // the member's name
	Behind uint64 `json:"behind"` // messages of the log that it has yet to apply
}

// Handover asks members to hand shards over. Exactly one field is set.
type Handover struct {
	Member string `json:"member,omitempty"` // the member whose shards are handed over
	Shard  *int   `json:"shard,omitempty"`  // the shard to hand over
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
	Shard *int   `json:"shard"` // the shard
	From  string `json:"from"`  // the member with the copy
}

func (r Recovery) check() error {
	if r.Shard == nil || r.From == "" {
		return newProblem(http.StatusBadRequest, `name a shard, and the member from whose copy it continues: {"shard": NUMBER, "from": NAME}`)
	}
	return nil
}

// errNoCluster is the answer to requests about the cluster of a bridge that has none.
var errNoCluster = newProblem(http.StatusNotFound, "this bridge is not a member of a cluster: its configuration has no cluster")
