package tickets

import (
	"fmt"
	"testing"

	"ndrbridge/transform"
)

// versionOf returns a version of one detection.
func versionOf(t *testing.T, modTime int64, assignee, status string) transform.Detection {
	t.Helper()
	d, err := transform.ParseDetection(fmt.Appendf(nil, `{"id":7,"mod_time":%d,"assignee":%q,"status":%q}`, modTime, assignee, status), false)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wrote has the bridge write f to a version. after is what it reads then; none if it
// crashes before the request is sent.
func (e *OwnWrites) wrote(f texts, was transform.Detection, after ...transform.Detection) {
	before := []transform.Detection{was}
	intended := intend(e.before(before), before, f, was.ModTime)
	e.put(intended)
	if len(after) > 0 {
		e.put(witness(intended, before, after))
	}
}

func TestWritesWhoseModTimeIsRaisedLate(t *testing.T) {
	const day = 86_400_000 // of the appliance's first version
	v := func(modTime int64, assignee, status string) transform.Detection {
		return versionOf(t, day+modTime, assignee, status)
	}
	for _, c := range []struct {
		name       string
		history    func(e *OwnWrites)
		last, seen transform.Detection
		want       bool
	}{
		{
			"an edit that the same write overwrites is not the raise of the write before",
			func(e *OwnWrites) {
				e.wrote(texts{"assignee": "bridge"}, v(0, "", "new"), v(0, "bridge", "new"))
				e.Delivered([]transform.Detection{v(0, "bridge", "new")})
				e.wrote(texts{"assignee": "bridge"}, v(100, "analyst", "new"), v(100, "bridge", "new"))
			},
			v(0, "bridge", "new"), v(100, "bridge", "new"), false,
		},
		{
			"a raise is, though another write was made on its version",
			func(e *OwnWrites) {
				e.wrote(texts{"assignee": "bridge"}, v(0, "", "new"), v(0, "bridge", "new"))
				e.Delivered([]transform.Detection{v(0, "bridge", "new")})
				e.wrote(texts{"assignee": "bridge"}, v(100, "bridge", "new"), v(100, "bridge", "new"))
			},
			v(0, "bridge", "new"), v(100, "bridge", "new"), true,
		},
		{
			"a write that did not arrive hides no raise of the one before",
			func(e *OwnWrites) {
				e.wrote(texts{"assignee": "bridge"}, v(0, "", "new"), v(0, "bridge", "new"))
				e.wrote(texts{"status": "closed"}, v(0, "bridge", "new")) // it crashes
				e.wrote(texts{"status": "closed"}, v(100, "bridge", "new"), v(100, "bridge", "closed"))
			},
			v(0, "", "new"), v(200, "bridge", "closed"), true,
		},
		{
			"nor an edit after it",
			func(e *OwnWrites) {
				e.wrote(texts{"assignee": "bridge"}, v(0, "", "new"), v(0, "bridge", "new"))
				e.wrote(texts{"status": "closed"}, v(0, "bridge", "new")) // it crashes
				e.wrote(texts{"status": "closed"}, v(100, "analyst", "new"), v(100, "analyst", "closed"))
			},
			v(0, "", "new"), v(200, "analyst", "closed"), false,
		},
		{
			"a write on a version that a raise made is, though the raise was not read",
			func(e *OwnWrites) {
				e.wrote(texts{"assignee": "bridge"}, v(0, "", "new"), v(0, "bridge", "new"))
				e.Delivered([]transform.Detection{v(50, "analyst", "new")})
				e.wrote(texts{"status": "closed"}, v(100, "analyst", "new"), v(200, "analyst", "closed"))
			},
			v(50, "analyst", "new"), v(200, "analyst", "closed"), true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &OwnWrites{writes: make(map[int64][]write)}
			c.history(e)
			check := func(by string, last []byte) {
				if got := e.IsOwnWrite(c.seen, c.last.ModTime, last); got != c.want {
					t.Errorf("the version is an own write: %t, want %t %s; %+v", got, c.want, by, e.writes)
				}
			}
			lists := transform.TrackedForms(c.last.Tracked)
			check("now", c.last.Tracked)
			check("if an earlier release delivered the last version", lists[0])
			for i, w := range e.writes[7] {
				e.writes[7][i].Base = w.Base[:min(len(w.Base), len(trackedDigest(lists[0])))]
			}
			check("if an earlier release wrote, too", lists[0])
			check("if only an earlier release wrote", c.last.Tracked)
		})
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
			if got := c.wrote.explain([]byte(before), []byte(c.after)); got != c.want {
				t.Errorf("it is explained: %t, want %t", got, c.want)
			}
		})
	}
}
