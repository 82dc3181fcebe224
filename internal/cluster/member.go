package cluster

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/lease"
)

// memberPrefix begins the keys of members in the registry.
const memberPrefix = "member."

// member is the entry of a member in the registry. Members of other versions read it: a
// field keeps its meaning, and unknown fields are ignored.
type member struct {
	ID         string    `json:"-"`        // from the key
	Instance   string    `json:"instance"` // random, one for each start of the process
	Version    string    `json:"version"`
	Layout     int       `json:"layout"`  // newest layout of the state that it can apply
	Since      time.Time `json:"since"`   // start, by its own clock: for people
	TermMS     int64     `json:"term_ms"` // of its leases; 0: not known
	ConfigHash string    `json:"config_hash"`
	// Yields are the shards that it takes only if nobody else can: an operator had
	// them handed over, or it is stopping.
	Yields []int             `json:"yields,omitempty"`
	Shards map[string]report `json:"shards,omitempty"` // by number, two digits
}

// report is what a member publishes about a shard that it owns, follows or cannot follow.
type report struct {
	Role     role   `json:"role"`
	Offset   uint64 `json:"offset"`              // of the last record in its file
	Behind   uint64 `json:"behind,omitempty"`    // follower: messages of the log that it has not applied
	CaughtUp bool   `json:"caught_up,omitempty"` // follower: it may take the shard
	LeaseMS  int64  `json:"lease_ms,omitempty"`  // owner: what was left of its lease
	// LogBytes and Snapshot are the size of the log behind the newest snapshot, and when that
	// was made; zero: not known.
	LogBytes int64     `json:"log_bytes,omitempty"`
	Snapshot time.Time `json:"snapshot,omitzero"`
	Reason   string    `json:"reason,omitempty"` // unable: why
	// Needs is the offset from which on the log can be followed again, as far as is known: it
	// lost a message before. Zero: it lost none.
	Needs uint64 `json:"needs,omitempty"`
	// Lost: its file has records that the log lacks, or the log is empty. No member takes the
	// shard then.
	Lost bool `json:"lost,omitempty"`
}

// role is what the state of a shard means to the other members: whoever takes it still follows
// it, and whoever releases it still owns it.
type role string

const (
	roleOwner    role = "owner"
	roleFollower role = "follower"
	roleUnable   role = "unable" // it cannot own the shard now
)

// yields reports whether m takes the shard only if nobody else can.
func (m member) yields(shard int) bool { return slices.Contains(m.Yields, shard) }

// report returns what m published about a shard; ok is false if it neither owns nor follows it.
func (m member) report(shard int) (r report, ok bool) {
	r, ok = m.Shards[configs.ShardName(shard)]
	return r, ok
}

// maxTerm bounds the term that an entry may claim.
const maxTerm = time.Hour

// gone returns how long the entry of m must be unchanged before a member with leases of a term
// considers m gone: longer if m's own term is longer, because it writes less often.
func (m member) gone(term time.Duration) time.Duration {
	theirs := time.Duration(max(0, min(m.TermMS, maxTerm.Milliseconds()))) * time.Millisecond
	return lease.Gone(max(term, theirs))
}

func (m member) encode() ([]byte, error) { return json.Marshal(m) }

// decodeMember returns the member whose entry in the registry is e.
func decodeMember(e Entry) (member, error) {
	m := member{}
	if len(e.Value) > maxValue {
		return m, fmt.Errorf("entry %s has %d bytes, more than %d", e.Key, len(e.Value), maxValue)
	}
	if err := json.Unmarshal(e.Value, &m); err != nil {
		return m, fmt.Errorf("parse entry %s: %w", e.Key, err)
	}
	if m.ID = strings.TrimPrefix(e.Key, memberPrefix); m.ID == e.Key || !validName(m.ID) || m.Instance == "" {
		return m, fmt.Errorf("entry %s is not one of a member", e.Key)
	}
	return m, nil
}

// namePattern matches what can be part of a key.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

func validName(name string) bool { return namePattern.MatchString(name) }
