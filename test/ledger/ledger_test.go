package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// version returns a state of detection id; content distinguishes states with the same
// mod_time.
func version(id, modTime int64, content string) ledger.Version {
	return ledger.Version{ID: id, ModTime: modTime, Object: fmt.Sprintf(`{"id":%d,"mod_time":%d,"title":%q}`, id, modTime, content)}
}

func event(t *testing.T, id string, v ledger.Version) transform.Event {
	t.Helper()
	e, err := transform.New(transform.Attributes{
		ID: id, Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated", Subject: fmt.Sprint(v.ID),
	}, []byte(`{"detection":`+v.Object+`}`))
	require.NoError(t, err)
	return e
}

func TestTheJudgeFindsEachFault(t *testing.T) {
	a1, a2, a2b, b1 := version(1, 10, "a"), version(1, 20, "b"), version(1, 20, "c"), version(2, 15, "d")
	hidden := version(3, 5, "e")
	hidden.Gone = true
	history := []ledger.Version{hidden, a1, b1, a2, a2b}
	type received struct {
		id string
		v  ledger.Version
	}
	for _, c := range []struct {
		name       string
		received   []received
		duplicates int
		fault      string
	}{
		{"everything is right", []received{{"1-10", a1}, {"2-15", b1}, {"1-20", a2}, {"1-20-2", a2b}}, 0, ""},
		{"a version in between may be missed", []received{{"2-15", b1}, {"1-20", a2b}}, 0, ""},
		{"a duplicate is counted", []received{{"1-10", a1}, {"2-15", b1}, {"1-10", a1}, {"2-15", b1}, {"1-20", a2b}}, 2, ""},
		{"a last version that is missing", []received{{"1-10", a1}, {"2-15", b1}, {"1-20", a2}}, 0, "is not the last that arrived"},
		{"a detection that is missing", []received{{"1-20", a2b}}, 0, "is not the last that arrived"},
		{"nothing at all", nil, 0, "of 2 detections"},
		{"a version that never was", []received{{"2-15", b1}, {"1-30", version(1, 30, "x")}, {"1-20", a2b}}, 0, "never was"},
		{"a version that was changed on the way", []received{{"2-15", version(2, 15, "D")}, {"2-15", b1}, {"1-20", a2b}}, 0, "never was"},
		{"an older version after a later one", []received{{"2-15", b1}, {"1-20", a2b}, {"1-10", a1}, {"1-20", a2b}}, 1, "after a later version"},
		{"an id that stands for two versions", []received{{"2-15", b1}, {"1-20", a2}, {"1-20", a2b}}, 0, "stands for two versions"},
		{"a version with two ids", []received{{"2-15", b1}, {"1-20", a2b}, {"1-20-2", a2b}}, 0, "came with the ids"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := ledger.New()
			for _, r := range c.received {
				l.Receive("lake", event(t, r.id, r.v))
			}
			verdict := l.Judge("lake", history)
			ids := make(map[string]bool)
			for _, r := range c.received {
				ids[r.id] = true
			}
			assert.Equal(t, l.Repeated("lake"), len(c.received)-len(ids), "ids were repeated")
			assert.Equal(t, verdict.Delivered, len(c.received), verdict)
			assert.Equal(t, verdict.Duplicates, c.duplicates, verdict)
			switch {
			case c.fault == "" && len(verdict.Faults) > 0:
				t.Errorf("faults %q, want none", verdict.Faults)
			case c.fault != "" && !strings.Contains(strings.Join(verdict.Faults, "\n"), c.fault):
				t.Errorf("faults %q, want one with %q", verdict.Faults, c.fault)
			}
		})
	}
}

func TestTheJudgeFindsDetectionsThatAreNotOpenAlike(t *testing.T) {
	about := func(action, status string) transform.Event {
		return require.Value(transform.New(transform.Attributes{
			ID: "1-" + action, Source: "ndrbridge://hq/detections", Type: transform.TypePrefix + "detection." + action, Subject: "1",
		}, []byte(`{"detection":{"id":1,"status":"`+status+`"}}`)))(t)
	}
	for _, c := range []struct {
		name   string
		events []transform.Event
		open   bool // at the appliance
		fault  string
	}{
		{"a version that is open", []transform.Event{about("created", "new")}, true, ""},
		{"a version that is closed", []transform.Event{about("created", "new"), about("updated", "closed")}, false, ""},
		{"one that is not shown any more", []transform.Event{about("created", "new"), about("hidden", "new")}, false, ""},
		{"one that is shown again", []transform.Event{about("created", "new"), about("gone", "new"), about("shown", "new")}, true, ""},
		{"a note changes nothing", []transform.Event{about("created", "new"), about("gone", "new"), about("noted", "new")}, false, ""},
		{"one that is open at the sink only", []transform.Event{about("created", "new")}, false, "open at the sink only"},
		{"one that is open at the appliance only", []transform.Event{about("created", "new"), about("hidden", "new")}, true, "open at the appliance only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := ledger.New()
			l.Receive("lake", c.events...)
			open := map[int64]bool{}
			if c.open {
				open[1] = true
			}
			faults := strings.Join(l.JudgeOpen("lake", open).Faults, "\n")
			assert.True(t, (c.fault == "") == (faults == "") && strings.Contains(faults, c.fault), faults)
		})
	}
}
