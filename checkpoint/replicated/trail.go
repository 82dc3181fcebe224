package replicated

import (
	"slices"
	"strings"

	"ndrbridge/checkpoint"
)

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
