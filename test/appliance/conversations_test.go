package appliance_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// stored are the detections that an appliance has at the beginning of a conversation.
var stored = map[string]func() []standin.Detection{
	"notes": someDetections, "settings": someDetections,
	"patches": tunedDetections, "tuningrules": tunedDetections,
}

// TestConversations plays the conversations of testdata/conversations, each with an
// appliance of its own. A line is a request: the status that is expected, the method, the
// path and the body. Lines that are indented check the answer: its location, that it is a
// text, that it has or lacks a part, its ids, the fields of its object or of the last object
// in its list. "user NAME ROLES" creates a user, whose name stands before requests of theirs.
func TestConversations(t *testing.T) {
	files := require.Value(filepath.Glob("testdata/conversations/*.txt"))(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			text := require.Value(os.ReadFile(file))(t)
			a, c := serve(t, standin.Options{})
			if detections := stored[name]; detections != nil {
				a.Add(detections()...)
			}
			converse(c, string(text))
		})
	}
}

func converse(c *caller, text string) {
	callers := map[string]*caller{}
	var request string
	var got reply
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		first, rest, _ := strings.Cut(line, " ")
		switch {
		case first == "" && rest != "":
			assert.Equal(c.t, got.differs(c.t, strings.TrimSpace(rest)), "", request, "is answered with", got.header.Get("Location"), got.body)
		case first == "" || first == "#":
		case first == "user":
			name, roles, _ := strings.Cut(rest, " ")
			callers[name] = c.user(name, roles)
		default:
			request = line
			by := c
			if callers[first] != nil {
				by, line = callers[first], rest
			}
			parts := append(strings.SplitN(line, " ", 4), "")
			status := require.Value(strconv.Atoi(parts[0]))(c.t)
			got = by.want(status, parts[1], parts[2], parts[3])
		}
	}
}

// differs returns the check that an answer fails, or nothing.
func (r reply) differs(t *testing.T, check string) string {
	t.Helper()
	kind, want, _ := strings.Cut(check, " ")
	ok := false
	switch kind {
	case "at":
		ok = r.header.Get("Location") == "/api/v1"+want
	case "=":
		ok = r.body == want
	case "has":
		ok = strings.Contains(r.body, want)
	case "lacks":
		ok = !strings.Contains(r.body, want)
	case "ids":
		ok = fmt.Sprint(idsOf(t, r.body)) == want
	case "fields":
		wantFields(t, decoded(t, r.body), decoded(t, want))
		return ""
	case "last":
		list := decodedList(t, r.body)
		wantFields(t, list[len(list)-1], decoded(t, want))
		return ""
	}
	if ok {
		return ""
	}
	return check
}
