package replicated

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"ndrbridge/checkpoint"
)

// The kinds of records.
const (
	KindTake    = "take"    // a member becomes the owner
	KindRecord  = "record"  // of a store
	KindRenew   = "renew"   // changes nothing, and may describe the owner
	KindRelease = "release" // the owner's last
)

// messageID names a message: a part of the record that an owner appended as its
// number-th. Owners with a higher epoch come later.
type messageID struct {
	owner         string
	epoch, number uint64
	part, parts   int // part counts from 1
}

func (id messageID) String() string {
	return fmt.Sprintf("%s.%d.%d.%d/%d", id.owner, id.epoch, id.number, id.part, id.parts)
}

// sameRecord reports whether both are parts of one record.
func (id messageID) sameRecord(other messageID) bool {
	return id.owner == other.owner && id.epoch == other.epoch && id.number == other.number && id.parts == other.parts
}

// idPattern is the form of an ID. The owner may contain dots.
var idPattern = regexp.MustCompile(`^(.+)\.(\d+)\.(\d+)\.(\d+)/(\d+)$`)

// maxIDBytes bounds the ID of a message.
const maxIDBytes = 512

// parseID is the inverse of String.
func parseID(s string) (id messageID, ok bool) {
	if len(s) > maxIDBytes {
		return id, false
	}
	found := idPattern.FindStringSubmatch(s)
	if found == nil {
		return id, false
	}
	var n [4]uint64
	for i, digits := range found[2:] {
		n[i], _ = strconv.ParseUint(digits, 10, 64)
	}
	if n[2] < 1 || n[2] > n[3] || n[3] > math.MaxInt32 {
		return id, false
	}
	id = messageID{owner: found[1], epoch: n[0], number: n[1], part: int(n[2]), parts: int(n[3])}
	return id, id.String() == s // no number was too large
}

// Owner is what the owner of a log says of itself, for people and for those who want to reach it.
type Owner struct {
	Member  string `json:"member,omitempty"`
	Version string `json:"version,omitempty"`
	URL     string `json:"url,omitempty"`    // of its admin interface; empty: nobody can reach it
	Config  string `json:"config,omitempty"` // a hash of its configuration
}

// taken is the content of a take.
type taken struct {
	Format byte `json:"format"` // of the records that follow
	Layout byte `json:"layout"` // of the owner's state
	// After is the ID of the message before the take, whatever has become of that; empty: there
	// is none, or it is not known. Who read another one has another history than the owner.
	After      string `json:"after,omitempty"`
	Cluster    string `json:"cluster,omitempty"` // with Generation the identity of the log
	Generation uint64 `json:"generation,omitempty"`
	// Moved is the generation in which the cluster goes on: nothing behind this take counts.
	Moved uint64 `json:"moved,omitempty"`
	Owner Owner  `json:"owner,omitzero"`
}

// Bounds of what is read, which are far above what an owner writes.
const (
	maxTaken = 64 << 10
	maxOwner = 32 << 10
)

// encode returns v as JSON. Nothing of it can fail to be encoded.
func encode(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// Identity is that of a log. The zero value is an unknown one.
type Identity struct {
	Cluster    string // an ID without spaces; not the name
	Generation uint64 // from 1 on
}

func (i Identity) String() string {
	return fmt.Sprintf("cluster %.100s, generation %d", i.Cluster, i.Generation)
}

// IdentityOf returns the identity of the log to which a state belongs.
func IdentityOf(at checkpoint.Point) Identity { return parseTrail(at.Trail).Identity }

// trail identifies the message at the offset of a copy of a log, and the log
// (checkpoint.Point.Trail). If the servers lose the end of the log and others append to it,
// sequence numbers are reused, and only the IDs reveal that.
type trail struct {
	id string // of the message; empty: unknown
	Identity
}

// parseTrail is the inverse of String.
func parseTrail(s string) (t trail) {
	fields := strings.Fields(s)
	if len(fields) > 0 {
		t.id = fields[0]
	}
	if len(fields) == 3 {
		if n, err := strconv.ParseUint(fields[2], 10, 64); err == nil {
			t.Identity = Identity{fields[1], n}
		}
	}
	return t
}

func (t trail) String() string {
	if t.Identity == (Identity{}) {
		return t.id
	}
	return fmt.Sprintf("%s %s %d", t.id, t.Cluster, t.Generation)
}
