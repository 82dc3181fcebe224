package replicated

import (
	"slices"
	"strings"

	"ndrbridge/checkpoint"
)

// trail identifies the message at a copy's offset, and the history of its log. A copy of a log
// keeps it with the offset (checkpoint.Point.Trail). If the servers lose the end of the log and
// others write to it, sequence numbers are used again, and IDs show that it is another history.
type trail struct {
	id string // of the message; empty: not known, and nothing else is
	// origin is the identity of the cluster, then that of each recovery of the log, the latest
	// last; empty: not known.
	origin []string
}

// maxOrigin bounds an origin: a file with a large trail is not opened quickly.
const maxOrigin = 8

// parseTrail is the inverse of String.
func parseTrail(s string) (t trail) {
	if fields := strings.Fields(s); len(fields) > 0 {
		t.id, t.origin = fields[0], fields[1:]
	}
	return t
}

func (t trail) String() string { return strings.Join(append([]string{t.id}, t.origin...), " ") }

// at returns the trail at a message of the same history.
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

// ClusterOf returns the identity of the cluster that a state is of; empty: not known.
func ClusterOf(state checkpoint.Point) string {
	if t := parseTrail(state.Trail); len(t.origin) > 0 {
		return t.origin[0]
	}
	return ""
}

// Superseded reports whether the log of a state was continued by Recover from another state
// since: a snapshot of the log shows that.
func Superseded(state checkpoint.Point, s Snapshot) bool {
	old, now := parseTrail(state.Trail).origin, parseTrail(s.Trail).origin
	return len(old) > 0 && len(now) > 0 && old[0] == now[0] && !slices.Contains(old, now[len(now)-1])
}
