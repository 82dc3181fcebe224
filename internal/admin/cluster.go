package admin

import (
	"net/http"
	"time"
)

// Cluster is the state of a cluster of bridges, as seen by one of its members.
type Cluster struct {
	Name string `json:"name"` // its name
	// Its identity, which ndrbridge cluster init gave it; empty if not known yet.
	ID         string `json:"id"`
	Generation uint64 `json:"generation"` // the generation of its log: each recovery begins the next one
	Member     string `json:"member"`     // the member that answered
	// The member that owns the log: it polls and delivers. Absent if none does.
	Owner string `json:"owner,omitempty"`
	// How long the owner's lease lasts unless it is renewed.
	LeaseSeconds        float64 `json:"lease_seconds,omitempty"`
	WithoutOwnerSeconds float64 `json:"without_owner_seconds,omitempty"` // how long the log has had no owner
	LogBytes            int64   `json:"log_bytes"`                       // the size of the log
	// When the newest snapshot of the state was made; absent if there is none.
	Snapshot time.Time       `json:"snapshot,omitzero"`
	Members  []ClusterMember `json:"members"` // the members that can be reached, by name
	// Why no member can own the log, such as that NATS lost a part of it.
	Error string `json:"error,omitempty"`
}

// Values of ClusterMember.State.
const (
	MemberAway      = "away"      // it cannot follow the log; Error says why
	MemberFollowing = "following" // it applies the log to its copy of the state
	MemberTaking    = "taking"    // it takes the log
	MemberOwning    = "owning"    // it owns the log
	MemberReleasing = "releasing" // it stops, and gives the log up
)

// Values of ClusterMember.Config.
const (
	ConfigSame    = "same"
	ConfigDiffers = "differs"
	ConfigUnknown = "unknown" // the member has another version
)

// ClusterMember is a member of a cluster that can be reached.
type ClusterMember struct {
	Member  string    `json:"member"`         // its name
	Version string    `json:"version"`        // the version of its program
	Since   time.Time `json:"since,omitzero"` // when it was started
	// The address of its admin interface for other members (admin.advertise); absent if it has none.
	URL string `json:"url,omitempty"`
	// What it does: away (it cannot follow the log), following, taking, owning or releasing.
	State string `json:"state"`
	// Its configuration, without secrets and the contents of files, compared with the owner's, or that
	// of the member that answered if there is no owner: same, differs, or unknown if it has another
	// version.
	Config     string `json:"config"`
	Generation uint64 `json:"generation"` // the generation of the log that its copy of the state has
	Offset     uint64 `json:"offset"`     // the last message of the log that its copy has
	Behind     uint64 `json:"behind"`     // messages of the log that it has yet to apply
	// Whether it owns the log, or can take it.
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"` // why it is not ready
}

// Recovery asks to begin the next generation of the log with the copy of a member.
type Recovery struct {
	From string `json:"from"` // the member with the copy
}

func (r Recovery) check() error {
	if r.From == "" {
		return newProblem(http.StatusBadRequest, `name the member with whose copy the log continues: {"from": NAME}`)
	}
	return nil
}

// errNoCluster is the answer to requests about the cluster of a bridge that has none.
var errNoCluster = newProblem(http.StatusNotFound, "this bridge is not a member of a cluster: its configuration has no cluster")
