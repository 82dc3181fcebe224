package commands

import (
	"context"
	"fmt"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// versionOf returns a version of one detection.
func versionOf(t *testing.T, modTime int64, assignee, status string) transform.Detection {
	t.Helper()
	d, err := transform.ParseDetection(fmt.Appendf(nil, `{"id":7,"mod_time":%d,"assignee":%q,"status":%q}`, modTime, assignee, status), false)
	require.NoError(t, err)
	return d
}

// wrote has the bridge write f to a version, and read after; none if it crashes before the
// request is sent.
func (e *OwnWrites) wrote(f texts, was transform.Detection, after ...transform.Detection) {
	before := []transform.Detection{was}
	e.intend(before, f)
	if len(after) > 0 {
		e.witness(before, after)
	}
}

// storedWrites are stored own writes.
type storedWrites []checkpoint.Entry

func (s storedWrites) Expected(context.Context, string) ([]checkpoint.Entry, error) { return s, nil }

// restart returns the writes to detection 7 as the next process loads them.
func (e *OwnWrites) restart(t *testing.T) *OwnWrites {
	t.Helper()
	stored := require.Value(e.entries([]transform.Detection{{ID: 7}}))(t)
	next := require.Value(LoadOwnWrites(t.Context(), storedWrites(stored), "hq"))(t)
	return next
}

func TestVersionsThatShowOwnWrites(t *testing.T) {
	const day = 86_400_000 // of the appliance's first version
	v := func(modTime int64, assignee, status string) transform.Detection {
		return versionOf(t, day+modTime, assignee, status)
	}
	assign, shut := texts{"assignee": "bridge"}, texts{"status": "closed"}
	for _, c := range []struct {
		name       string
		history    func(e *OwnWrites)
		last, seen transform.Detection
		want       bool
	}{
		{
			"a write that did not arrive does not hide the one before",
			func(e *OwnWrites) {
				e.wrote(assign, v(0, "", "new"), v(0, "bridge", "new"))
				e.wrote(shut, v(0, "bridge", "new")) // it crashes
				e.wrote(shut, v(100, "bridge", "new"), v(100, "bridge", "closed"))
			},
			v(0, "", "new"), v(200, "bridge", "closed"), true,
		},
		{
			"nor an edit after it",
			func(e *OwnWrites) {
				e.wrote(assign, v(0, "", "new"), v(0, "bridge", "new"))
				e.wrote(shut, v(0, "bridge", "new")) // it crashes
				e.wrote(shut, v(100, "analyst", "new"), v(100, "analyst", "closed"))
			},
			v(0, "", "new"), v(200, "analyst", "closed"), false,
		},
		{
			"a write on a version that was not read is",
			func(e *OwnWrites) {
				e.wrote(assign, v(0, "", "new"), v(0, "bridge", "new"))
				e.Delivered([]transform.Detection{v(50, "analyst", "new")})
				e.wrote(shut, v(100, "analyst", "new"), v(200, "analyst", "closed"))
			},
			v(50, "analyst", "new"), v(200, "analyst", "closed"), true,
		},
		{
			"an edit that takes a write back is not",
			func(e *OwnWrites) {
				e.wrote(shut, v(0, "", "new"), v(100, "", "closed"))
				e.wrote(assign, v(200, "", "new"), v(300, "bridge", "new"))
			},
			v(0, "", "new"), v(300, "bridge", "new"), false,
		},
		{
			"an edit to what was written and delivered before is not",
			func(e *OwnWrites) {
				e.wrote(shut, v(0, "", "new"), v(100, "", "closed"))
				e.Delivered([]transform.Detection{v(100, "", "closed")})
				e.Delivered([]transform.Detection{v(200, "", "new")})
			},
			v(200, "", "new"), v(300, "", "closed"), false,
		},
		{
			"nor together with another write",
			func(e *OwnWrites) {
				e.wrote(shut, v(0, "", "new"), v(100, "", "closed"))
				e.Delivered([]transform.Detection{v(200, "", "new")})
				e.wrote(assign, v(300, "", "closed"), v(400, "bridge", "closed"))
			},
			v(200, "", "new"), v(400, "bridge", "closed"), false,
		},
		{
			"an edit to what was written is not, if another edit came while it was under way",
			func(e *OwnWrites) {
				e.wrote(assign, v(0, "", "new"), v(100, "analyst", "new"))
				e.Delivered([]transform.Detection{v(100, "analyst", "new")})
			},
			v(100, "analyst", "new"), v(200, "bridge", "new"), false,
		},
		{
			"nor is a version without changes",
			func(e *OwnWrites) {
				e.wrote(assign, v(0, "", "new"), v(100, "bridge", "closed"))
				e.Delivered([]transform.Detection{v(100, "bridge", "closed")})
			},
			v(100, "bridge", "closed"), v(200, "bridge", "closed"), false,
		},
		{
			"but the next write is",
			func(e *OwnWrites) {
				e.wrote(assign, v(0, "", "new"), v(100, "analyst", "new"))
				e.Delivered([]transform.Detection{v(100, "analyst", "new")})
				e.wrote(shut, v(100, "analyst", "new"), v(200, "analyst", "closed"))
			},
			v(100, "analyst", "new"), v(200, "analyst", "closed"), true,
		},
		{
			"an edit to what was written is not, if it was delivered though its result was not read",
			func(e *OwnWrites) {
				e.intend([]transform.Detection{v(0, "", "new")}, assign)
				e.Delivered([]transform.Detection{v(100, "bridge", "new")})
				e.Delivered([]transform.Detection{v(110, "analyst", "new")})
			},
			v(110, "analyst", "new"), v(120, "bridge", "new"), false,
		},
		{
			"an edit before a write that changes nothing is not",
			func(e *OwnWrites) { e.wrote(shut, v(90, "", "closed"), v(90, "", "closed")) },
			v(50, "", "new"), v(90, "", "closed"), false,
		},
		{
			"nor if the write raised mod_time before it was delivered",
			func(e *OwnWrites) { e.wrote(shut, v(90, "", "closed"), v(110, "", "closed")) },
			v(50, "", "new"), v(110, "", "closed"), false,
		},
		{
			"though the raise alone is",
			func(e *OwnWrites) {
				e.wrote(shut, v(90, "", "closed"), v(110, "", "closed"))
				e.Delivered([]transform.Detection{v(90, "", "closed")})
			},
			v(90, "", "closed"), v(110, "", "closed"), true,
		},
		{
			"a write is, though an edit just before it was delivered while it was under way",
			func(e *OwnWrites) {
				before := []transform.Detection{v(0, "", "new")}
				e.intend(before, shut)
				e.Delivered([]transform.Detection{v(50, "analyst", "new")})
				e.witness(before, []transform.Detection{v(100, "analyst", "closed")})
			},
			v(50, "analyst", "new"), v(100, "analyst", "closed"), true,
		},
		{
			"and while its result is not known",
			func(e *OwnWrites) {
				e.intend([]transform.Detection{v(0, "", "new")}, shut)
				e.Delivered([]transform.Detection{v(50, "analyst", "new")})
			},
			v(50, "analyst", "new"), v(100, "analyst", "closed"), true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &OwnWrites{writes: make(map[int64]ownWrite)}
			c.history(e)
			check := func(by string, e *OwnWrites, last []byte) {
				assert.Equal(t, e.IsOwnWrite(c.seen, c.last.ModTime, last), c.want, "the version is an own write", by, e.writes)
			}
			check("now", e, c.last.Tracked)
			check("if an earlier release delivered the last version", e, transform.FirstTracked(c.last.Tracked))
			if !e.writes[7].open { // else the next attempt finds out
				check("after a restart", e.restart(t), c.last.Tracked)
			}
		})
	}
}

func TestWritesOfAnEarlierReleaseAreKnown(t *testing.T) {
	const chain = `[{"since":5,"mod_time":6,"fields":{"assignee":"bridge"}},{"since":6,"fields":{"status":"closed"},"raise_by":100}]`
	e, err := LoadOwnWrites(t.Context(), storedWrites{{Key: "7", Value: []byte(chain)}, {Key: "8", Value: []byte("null")}}, "hq")
	require.NoError(t, err)
	assert.True(t, e.IsOwnWrite(versionOf(t, 7, "bridge", "closed"), 5, versionOf(t, 5, "", "new").Tracked), "a version is not known as an own write", e.writes)
}

func TestAVersionInWhichAParticipantDiffersIsNoOwnWrite(t *testing.T) {
	version := func(modTime int, status, participants string) transform.Detection {
		object := fmt.Appendf(nil, `{"id":7,"mod_time":%d,"status":%q,"participants":%s}`, modTime, status, participants)
		return require.Value(transform.ParseDetection(object, false))(t).Digested()
	}
	before := version(5, "new", `[{"id":1,"role":"victim"}]`)
	e := &OwnWrites{writes: make(map[int64]ownWrite)}
	e.wrote(texts{"status": "closed"}, before)
	for participants, want := range map[string]bool{
		`[{"id":1,"role":"victim","hostname":"a"}]`: true, `[{"id":1,"role":"victim","username":"ana"}]`: false, `[{"id":2,"role":"victim"}]`: false,
	} {
		assert.Equal(t, e.IsOwnWrite(version(6, "closed", participants), 5, before.Tracked), want, participants)
	}
}

func TestALinkMayChangeTheURLOfTheTicket(t *testing.T) {
	const (
		before = `{"ticket_id":"SEC-1","ticket_url":"https://tickets.example/SEC-1"}`
		linked = `{"ticket_id":"SEC-2","ticket_url":"https://tickets.example/SEC-2"}`
		moved  = `{"ticket_id":"SEC-1","ticket_url":"https://other.example/SEC-1"}`
		closed = `{"status":"closed","ticket_id":"SEC-1","ticket_url":"https://other.example/SEC-1"}`
	)
	for _, c := range []struct {
		name  string
		wrote texts
		after string
		want  bool
	}{
		{"the URL follows the id", texts{"ticket_id": "SEC-2"}, linked, true},
		{"another id is not the one that was written", texts{"ticket_id": "SEC-3"}, linked, false},
		{"a URL alone is not the result of another write", texts{"status": "closed"}, closed, false},
		{"nor of none", texts{}, moved, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.wrote.explain([]byte(before), []byte(c.after)), c.want, "it is explained")
		})
	}
}
