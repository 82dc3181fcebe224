package poller_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// knownOfList1 is what a release that tracked the fields up to participants remembers of a
// detection.
func knownOfList1(modTime int64, events uint64, flags byte, rest string) []byte {
	b := binary.AppendUvarint(binary.AppendVarint(nil, modTime), events)
	return append(append(b, flags), rest...)
}

func TestAFieldAddedToChangesDeliversNothingAgain(t *testing.T) {
	w := newWorld(t)
	w.titles = nil
	w.options.PageSize = 100
	w.restart()
	w.mustPoll()
	w.clock += 1000
	show := func(r *modelRow, title, disposition string) {
		w.clock += 1000
		r.modTime, w.order = w.clock, nil
		r.raw = fmt.Appendf(nil, `{"id":%d,"mod_time":%d,"create_time":%d,"title":%q%s}`, r.id, r.modTime, r.began, title, disposition)
	}
	rows := []*modelRow{w.add(w.clock), w.add(w.clock), w.add(w.clock)}
	for i, disposition := range []string{``, `,"ai_disposition":null`, `,"ai_disposition":"indeterminate"`} {
		show(rows[i], "0", disposition)
	}
	unreadable := w.add(w.clock)
	unreadable.raw = fmt.Appendf(nil, `{"id":%d,"mod_time":"soon","title":"0","ai_disposition":"indeterminate"}`, unreadable.id)
	w.clock += 1000
	w.mustPoll()
	require.Equal(t, len(w.events), len(rows), "events")
	require.Equal(t, len(w.state.dead), 1, "dead letters")

	// The state is that of an earlier release.
	set := func(key string, at int64, value []byte) {
		_, ok := w.state.known[key]
		require.True(t, ok, key, "is not known")
		w.state.known[key] = checkpoint.Entry{Key: key, At: at, Value: value}
	}
	for _, r := range rows {
		set(fmt.Sprint(r.id), r.modTime, knownOfList1(r.modTime, 1, 0, `{"title":"0"}`))
	}
	sum := sha256.Sum256([]byte("\"soon\"\x00{\"title\":\"0\"}"))
	version := int64(binary.BigEndian.Uint64(sum[:]) | 1<<63)
	set("#"+fmt.Sprint(unreadable.id), w.clock, knownOfList1(version, 0, 1, ""))
	clear(w.state.dead)
	w.events = nil
	w.restart()
	remembered := 0
	w.state.journal = func(c checkpoint.Commit) {
		w.journal(c)
		remembered += len(c.Remember)
	}
	commits := w.state.commits
	for range 5 {
		w.mustPoll()
	}
	if w.state.commits != commits {
		t.Errorf("an upgrade writes %d times", w.state.commits-commits)
	}
	w.clock += 7 * time.Hour.Milliseconds() // the next sweep is due
	w.drain()
	if w.state.commits == commits || len(w.events) > 0 || len(w.state.dead) > 0 || remembered > 0 {
		t.Fatalf("an upgrade delivers %d events and %d dead letters, and writes %d detections, in %d commits",
			len(w.events), len(w.state.dead), remembered, w.state.commits-commits)
	}

	for _, step := range []struct{ name, title, disposition, changes string }{
		{"another field", "1", `"indeterminate"`, `{"title":{"from":"0","to":"1"}}`},
		{"the field", "1", `"false_positive"`, `{"ai_disposition":{"from":"indeterminate","to":"false_positive"}}`},
		{"the field, to null", "1", `null`, `{"ai_disposition":{"from":"false_positive","to":null}}`},
		{"both", "2", `"indeterminate"`, `{"title":{"from":"1","to":"2"},"ai_disposition":{"from":null,"to":"indeterminate"}}`},
	} {
		for _, r := range rows {
			w.events = nil
			show(r, step.title, `,"ai_disposition":`+step.disposition)
			w.mustPoll()
			w.mustPoll()
			require.True(t, len(w.events) == 1 && w.events[0].Action() == "updated", step.name, r.id, "changed: events", w.events)
			for name, value := range jsonscan.Members(w.events[0].Data()) {
				assert.True(t, string(name) != "changes" || string(value) == step.changes, step.name, r.id, "changed: changes are", string(value), step.changes)
			}
			assert.Contains(t, string(w.events[0].Data()), `"changes"`, step.name, "of", r.id, "changed: there are no changes")
		}
	}
}

func TestParticipantsThatWereCountedDeliverNothingAgain(t *testing.T) {
	w := newWorld(t)
	w.titles = nil
	w.options.PageSize = 100
	w.restart()
	w.mustPoll()
	w.clock += 1000
	r := w.add(w.clock)
	show := func(participants string) {
		w.clock += 1000
		r.modTime, w.order = w.clock, nil
		r.raw = fmt.Appendf(nil, `{"id":%d,"mod_time":%d,"create_time":%d,"participants":%s}`, r.id, r.modTime, r.began, participants)
	}
	show(`[{"id":1,"role":"offender"}]`)
	w.mustPoll()
	require.Equal(t, len(w.events), 1, "events")

	// The state is that of an earlier release.
	key := fmt.Sprint(r.id)
	w.state.known[key] = checkpoint.Entry{Key: key, At: r.modTime, Value: knownOfList1(r.modTime, 1, 0, `{"participants":1,"list":2}`)}
	w.events = nil
	w.restart()
	commits := w.state.commits
	for range 3 {
		w.mustPoll()
	}
	w.clock += 7 * time.Hour.Milliseconds() // the next sweep is due
	w.drain()
	assert.True(t, len(w.events) == 0 && w.state.commits == commits+1, "an upgrade delivers", w.events, "in commits", w.state.commits-commits)

	for _, step := range []struct{ name, participants, changes string }{
		{"another one, known by its number", `[{"id":2},{"id":1,"role":"offender"}]`, `{"participants":{"from":1,"to":2}}`},
		{"another one, known by its id", `[{"id":3},{"id":1},{"id":2}]`, `{"participants":{"from":2,"to":3,"added":[{"id":3}],"changed":[{"id":1}]}}`},
		{"fewer", `[]`, `{"participants":{"from":3,"to":0,"removed":[{"id":3},{"id":1},{"id":2}]}}`},
		{"none", `null`, `{"participants":{"from":0,"to":null}}`},
	} {
		w.events = nil
		show(step.participants)
		w.mustPoll()
		w.mustPoll()
		require.True(t, len(w.events) == 1, step.name, "events", w.events)
		for name, value := range jsonscan.Members(w.events[0].Data()) {
			assert.True(t, string(name) != "changes" || string(value) == step.changes, step.name, string(value), step.changes)
		}
	}
	// What is learned of a participant later, with the same mod_time, is no version of its own.
	w.events = nil
	show(`[{"id":1}]`)
	w.mustPoll()
	r.raw = fmt.Appendf(nil, `{"id":%d,"mod_time":%d,"create_time":%d,"participants":[{"id":1,"username":"ana"}]}`, r.id, r.modTime, r.began)
	w.mustPoll()
	assert.Equal(t, len(w.events), 1, "events of one mod_time")
}

func TestTheLifecycleIsRemembered(t *testing.T) {
	w := newWorld(t)
	w.titles = nil
	w.restart()
	w.mustPoll()
	w.clock += 1000
	r := w.add(w.clock)
	show := func(status string) {
		w.clock += 1000
		r.modTime, w.order, w.events = w.clock, nil, nil
		r.raw = fmt.Appendf(nil, `{"id":%d,"mod_time":%d,"create_time":%d,"status":%q}`, r.id, r.modTime, r.began, status)
		w.restart() // only what is in the state is known
		w.mustPoll()
		require.Equal(t, len(w.events), 1, status, "events")
	}
	times := []any{r.began}
	for _, step := range []struct{ status, want string }{ // the nth verb is the time of the nth step
		{"new", `{"first_seen":%[1]d}`},
		{"acknowledged", `{"first_seen":%[1]d,"acknowledged":%[3]d}`},
		{"closed", `{"first_seen":%[1]d,"acknowledged":%[3]d,"closed":%[4]d}`},
		{"in_progress", `{"first_seen":%[1]d,"acknowledged":%[3]d,"reopened":%[5]d}`},
		{"closed", `{"first_seen":%[1]d,"acknowledged":%[3]d,"closed":%[6]d,"reopened":%[5]d}`},
	} {
		show(step.status)
		times = append(times, r.modTime)
		assert.Contains(t, string(w.events[0].Data()), `"lifecycle":`+fmt.Sprintf(step.want, times...), step.status)
	}

	// A release that did not know it has written the state: what happened before is unknown.
	key := fmt.Sprint(r.id)
	w.state.known[key] = checkpoint.Entry{Key: key, At: r.modTime, Value: knownOfList1(r.modTime, 1, 0, `{"status":"closed","list":2}`)}
	w.restart()
	w.events = nil
	w.mustPoll()
	require.Equal(t, len(w.events), 0, "events after an upgrade")
	show("new")
	assert.Contains(t, string(w.events[0].Data()), fmt.Sprintf(`"lifecycle":{"first_seen":%d,"reopened":%d}`, r.began, r.modTime), "after an upgrade")
}
