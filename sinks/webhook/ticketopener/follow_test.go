package ticketopener_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// followIn returns a Follow for a tool.
func followIn(o *tool) *ticketopener.Follow {
	states := map[string]ticketopener.Move{}
	for status, m := range o.states {
		states[status] = m.Move
	}
	return &ticketopener.Follow{
		Comment:    []string{"status", "assignee", "risk_score", "noted", "hidden"},
		States:     states,
		KeepClosed: []string{o.kept},
		People:     map[string]string{"ana": o.people[0], "ben": "nobody", "cleo": o.people[1]},
	}
}

// changed returns a later version of a detection, whose status or assignee changed.
func changed(t testing.TB, id, minute int, status, assignee string, fields ...string) transform.Event {
	t.Helper()
	e := version(t, id, minute, status)
	changes := map[string]any{}
	for _, field := range fields {
		changes[field] = map[string]any{"from": nil, "to": map[string]string{"status": status, "assignee": assignee}[field]}
	}
	var data map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(e.Data(), &data))
	data["changes"] = require.Value(json.Marshal(changes))(t)
	if assignee != "" {
		var detection map[string]any
		require.NoError(t, json.Unmarshal(data["detection"], &detection))
		detection["assignee"] = assignee
		data["detection"] = require.Value(json.Marshal(detection))(t)
	}
	return require.Value(transform.New(e.Attributes, require.Value(json.Marshal(data))(t)))(t)
}

// following is a sink whose tickets follow, with what it reported.
type following struct {
	*ticketSink
	store *checkpoint.Store
	read  uint64 // the last report
}

func newFollowing(t testing.TB, o *tool) *following {
	f := newTicketSink(t, o)
	f.follow = followIn(o)
	return &following{ticketSink: f, store: f.memory.Store.(*checkpoint.Store)}
}

// reported returns the new reports: the action, and the beginning of the reason.
func (f *following) reported(t testing.TB) string {
	t.Helper()
	var all []string
	records := require.Value(f.store.Read(t.Context(), f.read, checkpoint.Batch{}))(t)
	for _, r := range records {
		f.read = r.Seq
		var data struct{ Ticket transform.TicketReport }
		require.NoError(t, json.Unmarshal(r.Event.Data(), &data))
		text := r.Event.Action()
		if data.Ticket.Detections > 0 {
			text += fmt.Sprintf(" for %d", data.Ticket.Detections)
		}
		if data.Ticket.MovedFrom != "" {
			text += " from its old id"
		}
		if data.Ticket.To != "" {
			text += " to " + data.Ticket.To
		}
		if data.Ticket.Assignee != "" {
			text += " for " + data.Ticket.Assignee
		}
		if data.Ticket.Commented {
			text += " with a comment"
		}
		if data.Ticket.Reason != "" {
			reason, _, _ := strings.Cut(data.Ticket.Reason, ":")
			text += " (" + reason + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// step is something that happens, with what the sink then reports.
type step struct {
	person func(*ticket) // what a person does to the ticket before
	event  transform.Event
	report string
}

func TestATicketFollowsItsDetection(t *testing.T) {
	eachFollower(t, func(t *testing.T, o *tool) {
		closing, working := o.states["closed"].Status, o.working
		opening := step{nil, version(t, 7, 0, "new"), "opened"}
		again := changed(t, 7, 1, "closed", "", "status").Redeliver(1)
		own := changed(t, 7, 1, "closed", "", "status")
		own.CausedBy = transform.CausedByWriteback
		linked := changed(t, 7, 1, "closed", "", "ticket_id")
		linked.CausedBy = transform.CausedByWriteback
		for _, test := range []struct {
			name  string
			steps []step
			want  string
		}{
			{"a closed detection closes it, with one comment", []step{opening,
				{nil, changed(t, 7, 1, "closed", "", "status"), "updated to " + closing + " with a comment"},
			}, closing + ", 1 comment"},
			{"a detection that is closed at first sight has a closed ticket", []step{
				{nil, version(t, 7, 0, "closed"), "opened, updated to " + closing},
				{nil, changed(t, 7, 1, "in_progress", "", "status"), "updated to " + o.states["reopened"].Status + " with a comment"},
			}, o.states["reopened"].Status + ", 1 comment"},
			{"the same version again changes nothing", []step{opening,
				{nil, changed(t, 7, 1, "closed", "", "status"), "updated to " + closing + " with a comment"},
				{nil, again, "updated with a comment"},
			}, closing + ", 1 comment"},
			{"a reopened detection reopens it", []step{opening,
				{nil, changed(t, 7, 1, "closed", "", "status"), "updated to " + closing + " with a comment"},
				{nil, changed(t, 7, 2, "in_progress", "", "status"), "updated to " + o.states["reopened"].Status + " with a comment"},
			}, o.states["reopened"].Status + ", 2 comments"},
			{"an older version that is delivered again does not move it back", []step{opening,
				{nil, changed(t, 7, 2, "closed", "", "status"), "updated to " + closing + " with a comment"},
				{nil, changed(t, 7, 1, "in_progress", "", "status").Redeliver(1), "updated with a comment"},
			}, closing + ", 2 comments"},
			{"a status without a move is a comment", []step{opening,
				{nil, changed(t, 7, 1, "acknowledged", "", "status"), "updated with a comment"},
			}, o.initial + ", 1 comment"},
			{"a change that is not configured is nothing", []step{opening,
				{nil, changed(t, 7, 1, "new", "", "title"), ""},
			}, o.initial + ", 0 comments"},
			{"the bridge's own write is nothing, and is not undone by the next version", []step{opening,
				{nil, own, ""},
				{nil, changed(t, 7, 2, "closed", "", "risk_score"), "updated with a comment"},
			}, o.initial + ", 1 comment"},
			{"the bridge's own link shows a status whose version did not match, which the ticket follows", []step{opening,
				{nil, linked, "updated to " + closing},
			}, closing + ", 0 comments"},
			{"follow-ups are comments", []step{opening,
				{nil, presettest.FollowUp(t, 7, 1, "noted"), "updated with a comment"},
				{nil, presettest.FollowUp(t, 7, 2, "hidden"), "updated with a comment"},
				{nil, presettest.FollowUp(t, 7, 3, "shown"), "updated with a comment"},
				{nil, presettest.FollowUp(t, 7, 4, "evidence"), ""},
			}, o.initial + ", 3 comments"},
			{"an assignee is assigned, if the system has the person", []step{opening,
				{nil, changed(t, 7, 1, "new", "ana", "assignee"), "updated for " + o.people[0] + " with a comment"},
			}, o.initial + ", " + o.people[0] + ", 1 comment"},
			{"an unknown person is a conflict, and a comment", []step{opening,
				{nil, changed(t, 7, 1, "new", "ben", "assignee"), "conflict with a comment (it is not assigned)"},
			}, o.initial + ", 1 comment"},
			{"whom a person assigned it to stays", []step{opening,
				{func(i *ticket) { i.Assignee = o.people[1] }, changed(t, 7, 1, "new", "ana", "assignee"), "updated with a comment"},
			}, o.initial + ", " + o.people[1] + ", 1 comment"},
			{"a person's newer move wins", []step{opening,
				{func(i *ticket) { i.Status = working }, changed(t, 7, 1, "closed", "", "status"),
					"conflict with a comment (it was moved to " + working + " after the detection changed, and stays there)"},
			}, working + ", 1 comment"},
			{"a version that is newer than a person's move wins", []step{opening,
				{func(i *ticket) { i.Status = working }, changed(t, 7, 100_000, "closed", "", "status"), "updated to " + closing + " with a comment"},
			}, closing + ", 1 comment"},
			{"a status that is kept is a conflict", []step{opening,
				{nil, changed(t, 7, 1, "closed", "", "status"), "updated to " + closing + " with a comment"},
				{func(i *ticket) { i.Status = o.kept }, changed(t, 7, 100_000, "in_progress", "", "status"),
					"conflict with a comment (it stays " + o.kept + ", as follow.keep_closed says)"},
			}, o.kept + ", 2 comments"},
			{"a ticket that a person closed as the detection is closed stays so", []step{opening,
				{func(i *ticket) { i.Status = closing }, changed(t, 7, 100_000, "closed", "", "status"), "updated with a comment"},
			}, closing + ", 1 comment"},
			{"a deleted ticket is reported once, and left alone", []step{opening,
				{func(i *ticket) { i.Deleted = true }, changed(t, 7, 1, "closed", "", "status"), "lost (the ticket was deleted, or the account may not see it)"},
				{nil, changed(t, 7, 2, "in_progress", "", "status"), ""},
			}, "lost"},
			{"a closed project is a conflict for each event", []step{opening,
				{func(i *ticket) { i.Archived = true }, changed(t, 7, 1, "closed", "", "status"), "conflict (it is not moved)"},
			}, o.initial + ", 0 comments"},
		} {
			t.Run(test.name, func(t *testing.T) {
				f, id := newFollowing(t, o), ""
				for n, s := range test.steps {
					if s.person != nil {
						o.change(id, s.person)
					}
					require.NoError(t, f.send(t, s.event))
					if n == 0 {
						id = o.last()
						defer o.change(id, func(i *ticket) { i.Deleted = true })
					}
					require.Equal(t, f.reported(t), s.report, "the report of step", n)
				}
				assert.Equal(t, o.look(id), test.want)
			})
		}
		t.Run("a deleted ticket is opened again where that is configured", func(t *testing.T) {
			f := newFollowing(t, o)
			f.follow.OpenAgain = true
			require.NoError(t, f.send(t, opening.event))
			before := len(o.opened())
			o.change(o.last(), func(i *ticket) { i.Deleted = true })
			e := changed(t, 7, 1, "in_progress", "", "status")
			e = require.Value(transform.New(e.Attributes, bytes.Replace(e.Data(), []byte(`"ticket_id":null`), []byte(`"ticket_id":"SEC-1"`), 1)))(t)
			f.sendUntilDelivered(t, e)
			assert.Equal(t, f.reported(t), "opened, lost (the ticket was deleted, or the account may not see it), opened")
			assert.Equal(t, len(o.opened()), before, "tickets")
			assert.Equal(t, len(f.links), 2, "links")
			o.change(o.last(), func(i *ticket) { i.Deleted = true })
		})
		t.Run("a move that the ticket does not offer is a conflict that names those it does", func(t *testing.T) {
			f := newFollowing(t, o)
			f.follow.States = map[string]ticketopener.Move{"closed": {To: "no such state"}}
			require.NoError(t, f.send(t, opening.event, changed(t, 7, 1, "closed", "", "status")))
			assert.Equal(t, f.reported(t), "opened, conflict with a comment (it is not moved)")
		})
	})
}

// Whatever fails, and however often, each change becomes one comment, and the last state and assignee
// arrive.
func TestEachChangeIsOneComment(t *testing.T) {
	id := 5000
	checkFollowers(t, func(r *rapid.T, o *tool) {
		id++
		f := newFollowing(t, o)
		store := presettest.Faulty(f.memory)
		f.sendUntilDelivered(t, version(t, id, 0, "new"))
		status, assignee, comments, reports := "new", "", 0, 1
		for minute := range rapid.IntRange(1, 4).Draw(r, "versions") {
			status = map[string]string{"new": "closed", "closed": "in_progress", "in_progress": "closed"}[status]
			comments++
			reports++
			o.fail(rapid.SliceOfN(rapid.SampledFrom([]fault{none, none, unread, unsaid, busy}), 0, 8).Draw(r, "faults")...)
			memoryFails := failing(rapid.SliceOfN(rapid.Bool(), 0, 3).Draw(r, "the memory fails"))
			store.Remember = func() error {
				if memoryFails() {
					return errors.New("the disk is full")
				}
				return nil
			}
			fields := []string{"status"}
			if to := rapid.SampledFrom([]string{assignee, "ana", "cleo"}).Draw(r, "assignee"); to != assignee {
				assignee, fields = to, append(fields, "assignee")
			}
			f.sendUntilDelivered(t, changed(t, id, minute+1, status, assignee, fields...))
		}
		want := o.states["closed"].Status
		if status != "closed" {
			want = o.states["reopened"].Status
		}
		if assignee != "" {
			want += ", " + f.follow.People[assignee]
		}
		plural := "s"
		if comments == 1 {
			plural = ""
		}
		require.Equal(r, o.look(o.last()), fmt.Sprintf("%s, %d comment%s", want, comments, plural))
		records := require.Value(f.store.Read(t.Context(), 0, checkpoint.Batch{}))(r)
		require.Equal(r, len(records), reports, "reports")
	})
}
