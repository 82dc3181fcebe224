package replicated

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/checkpoint"
)

// The kinds of records.
const (
	KindTake    = "take"    // a member becomes the owner
	KindRecord  = "record"  // of a store
	KindRenew   = "renew"   // changes nothing
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

// taken is the content of a take.
type taken struct {
	Format byte `json:"format"` // of the records that follow
	Layout byte `json:"layout"` // of the owner's state
	// After is the ID of the message before the take, whatever has become of that; empty: there
	// is none, or it is not known. Who read another one has another history than the owner.
	After string `json:"after,omitempty"`
	// Origin identifies the history of the log: see trail.
	Origin []string `json:"origin,omitempty"`
	// Recovered is the snapshot from which the records after this take lead on, instead of from
	// the records before it: see Recover. Its offset and trail are still the state's.
	Recovered *Snapshot `json:"recovered,omitempty"`
}

func (t taken) encode() []byte {
	b, _ := json.Marshal(t) // nothing of it can fail to be encoded
	return b
}

// trail identifies the message at the offset of a copy of a log and the history of the log
// (checkpoint.Point.Trail). If the servers lose the end of the log and others append to it,
// sequence numbers are reused, and only the IDs reveal the other history.
type trail struct {
	id string // of the message; empty: unknown, and so is origin
	// origin has the identity of the cluster, then that of each recovery of the log, the latest
	// last; empty: unknown.
	origin []string
}

// maxOrigin limits the length of an origin: a large trail slows down opening the file.
const maxOrigin = 8

// parseTrail is the inverse of String.
func parseTrail(s string) (t trail) {
	if fields := strings.Fields(s); len(fields) > 0 {
		t.id, t.origin = fields[0], fields[1:]
	}
	return t
}

func (t trail) String() string { return strings.Join(append([]string{t.id}, t.origin...), " ") }

// at returns the trail at another message of the same history.
func (t trail) at(id string) trail {
	t.id = id
	return t
}

// recovered returns the trail of the history that a recovery begins.
func (t trail) recovered(recovery string) trail {
	if len(t.origin) == 0 {
		return t
	}
	if len(t.origin) == maxOrigin {
		t.origin = slices.Delete(slices.Clone(t.origin), 1, 2)
	}
	t.origin = append(slices.Clone(t.origin), recovery)
	return t
}

// ClusterOf returns the identity of the cluster to which a state belongs; empty: unknown.
func ClusterOf(state checkpoint.Point) string {
	if t := parseTrail(state.Trail); len(t.origin) > 0 {
		return t.origin[0]
	}
	return ""
}

// Superseded reports whether Recover has continued the log from another state since, according
// to a snapshot of the log.
func Superseded(state checkpoint.Point, s Snapshot) bool {
	old, now := parseTrail(state.Trail).origin, parseTrail(s.Trail).origin
	return len(old) > 0 && len(now) > 0 && old[0] == now[0] && !slices.Contains(old, now[len(now)-1])
}
