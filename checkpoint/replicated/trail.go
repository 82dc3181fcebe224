package replicated

import (
	"slices"
	"strings"

	"ndrbridge/checkpoint"
)

// trail is what a copy of a log keeps with its offset (checkpoint.Point.Trail): which message
// it is, and who wrote the log up to there. If the servers lose the end of the log and others
// write to it, sequence numbers are used again, and IDs show that it is another history.
type trail struct {
	id     string   // of the message; empty: not known
	owners []string // the last ones, the latest last
	cut    bool     // there were others before them
}

// maxOwnersBytes bounds the owners of a trail. A file with a larger one is not opened quickly.
const maxOwnersBytes = 300

// cutMark stands in front of owners if others were before them.
const cutMark = "…"

// trailOf returns the trail of a copy. If the copy has something but no trail, it is not known
// who wrote that.
func trailOf(at checkpoint.Point) trail {
	t := parseTrail(at.Trail)
	t.cut = t.cut || t.id == "" && at.Offset > 0
	return t
}

// parseTrail is the inverse of String.
func parseTrail(s string) (t trail) {
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return t
	}
	t.id, t.owners = fields[0], fields[1:]
	if len(t.owners) > 0 && t.owners[0] == cutMark {
		t.cut, t.owners = true, t.owners[1:]
	}
	return t
}

func (t trail) String() string {
	fields := []string{t.id}
	if t.cut {
		fields = append(fields, cutMark)
	}
	return strings.Join(append(fields, t.owners...), " ")
}

// at returns the trail at a message that an owner wrote behind t.
func (t trail) at(id, owner string) trail {
	t.id = id
	if n := len(t.owners); owner == "" || n > 0 && t.owners[n-1] == owner {
		return t
	}
	t.owners = append(slices.DeleteFunc(slices.Clone(t.owners), func(o string) bool { return o == owner }), owner)
	for len(t.owners) > 1 && len(strings.Join(t.owners, " ")) > maxOwnersBytes {
		t.owners, t.cut = t.owners[1:], true
	}
	return t
}

// complete reports whether nobody else wrote the log up to there.
func (t trail) complete() bool { return !t.cut && len(t.owners) > 0 }

// before reports whether a message is of a later owner than the one that wrote last.
func (t trail) before(id messageID) bool {
	last, ok := parseID(t.id)
	return ok && id.epoch > last.epoch
}
