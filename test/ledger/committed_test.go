package ledger_test

import (
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestTheJudgeFindsWhatWasCommittedAndDidNotArrive(t *testing.T) {
	of := func(source, id string) transform.Event {
		e := require.Value(transform.New(transform.Attributes{ID: id, Source: source, Type: "t"}, []byte(`{}`)))(t)
		return e
	}
	version, between := of("ndrbridge://hq/detections", "1-20"), of("ndrbridge://hq/detections", "1-10")
	own, namesake := of("ndrbridge://hq/events", "back-7"), of("ndrbridge://hq/audit", "back-7")
	for _, c := range []struct {
		name      string
		committed []transform.Event
		received  []transform.Event
		arrived   int
		fault     string
	}{
		{"everything is right", []transform.Event{between, version, own}, []transform.Event{own, between, version}, 3, ""},
		{"what was committed is owed once, however often it is seen", []transform.Event{own, own}, []transform.Event{own}, 1, ""},
		{"what was never seen in the journal may arrive", nil, []transform.Event{version}, 0, ""},
		{"a version in between that is missing", []transform.Event{between, version}, []transform.Event{version}, 1, "detections 1-10"},
		{"an event of the bridge's own that is missing", []transform.Event{own}, nil, 0, "events back-7"},
		{"an id that arrived from another source is not taken for it", []transform.Event{own}, []transform.Event{namesake}, 0, "events back-7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := ledger.New()
			l.Commit(c.committed...)
			l.Receive("lake", c.received...)
			l.Receive("bus", c.committed...) // deliveries to another sink do not count
			verdict := l.JudgeCommitted("lake")
			assert.Equal(t, verdict.Delivered, c.arrived, "arrived")
			switch text := strings.Join(verdict.Faults, "\n"); {
			case c.fault == "" && text != "":
				t.Errorf("faults %q, want none", text)
			case !strings.Contains(text, c.fault):
				t.Errorf("faults %q, want one with %q", text, c.fault)
			}
		})
	}
}
