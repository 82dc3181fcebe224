package ticketopener_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// with returns an event whose detection has another offender; 0: none.
func with(t testing.TB, offender int, e transform.Event) transform.Event {
	t.Helper()
	data := bytes.ReplaceAll(e.Data(), []byte(`: `), []byte(`:`))
	if offender == 0 {
		data = bytes.ReplaceAll(data, []byte(`"role":"offender"`), []byte(`"role":"other"`))
	}
	data = bytes.ReplaceAll(data, []byte(`"object_id":4711`), []byte(`"object_id":`+strconv.Itoa(offender)))
	return require.Value(transform.New(e.Attributes, data))(t)
}

// grouping is a sink whose tickets are for groups of at most three detections.
func newGrouping(t testing.TB, o *tool) *following {
	f := newFollowing(t, o)
	f.group = &ticketopener.Group{By: []string{"type", "offender"}, Window: 24 * time.Hour, Max: 3}
	return f
}

// linked returns the tickets since one, with their detections.
func (f *following) linked(since int) string {
	var all []string
	for _, ticket := range f.opened()[since:] {
		var of []string
		for _, link := range f.links {
			if detection, id, _ := strings.Cut(link, " "); id == ticket {
				of = append(of, detection)
			}
		}
		slices.Sort(of)
		all = append(all, strings.Join(of, " "))
	}
	return strings.Join(all, ", ")
}

func TestAGroupOfDetectionsHasOneTicket(t *testing.T) {
	eachFollower(t, func(t *testing.T, o *tool) {
		closing, reopened := o.states["closed"].Status, o.states["reopened"].Status
		first := func(id, minute int) transform.Event { return with(t, 1, version(t, id, minute, "new")) }
		later := func(id, minute int, status string) transform.Event {
			return with(t, 1, changed(t, id, minute, status, "", "status"))
		}
		own := later(7, 2, "closed")
		own.CausedBy = transform.CausedByWriteback
		opening, joining := step{nil, first(7, 0), "opened for 1"}, step{nil, first(8, 1), "updated for 2 with a comment"}
		for _, test := range []struct {
			name   string
			steps  []step
			want   string // the tickets
			linked string // their detections
		}{
			{"another detection is a comment on it, and is linked with it", []step{opening, joining, {nil, first(8, 1), ""}},
				o.initial + ", 1 comment", "7 8"},
			{"a detection of another offender has its own", []step{opening, {nil, with(t, 2, version(t, 8, 1, "new")), "opened for 1"}},
				o.initial + ", 0 comments; " + o.initial + ", 0 comments", "7, 8"},
			{"a detection without an offender has its own", []step{{nil, with(t, 0, version(t, 7, 0, "new")), "opened"}, {nil, with(t, 0, version(t, 8, 1, "new")), "opened"}},
				o.initial + ", 0 comments; " + o.initial + ", 0 comments", "7, 8"},
			{"a detection outside the window opens the next", []step{opening, {nil, first(8, 24*60), "opened for 1"}, {nil, first(9, 24*60+1), "updated for 2 with a comment"}},
				o.initial + ", 0 comments; " + o.initial + ", 1 comment", "7, 8 9"},
			{"a detection beyond the maximum opens the next", []step{opening, joining, {nil, first(9, 2), "updated for 3 with a comment"}, {nil, first(10, 3), "opened for 1"}},
				o.initial + ", 2 comments; " + o.initial + ", 0 comments", "7 8 9, 10"},
			{"a detection after a person closed it opens the next", []step{opening, {func(i *ticket) { i.Status = closing }, first(8, 1), "opened for 1"}},
				closing + ", 0 comments; " + o.initial + ", 0 comments", "7, 8"},
			{"a detection after it was deleted opens the next", []step{opening,
				{func(i *ticket) { i.Deleted = true }, first(8, 1), "lost for 1 (the ticket was deleted, or the account may not see it), opened for 1"}},
				o.initial + ", 0 comments", "8"},
			{"it is closed with the last of its detections", []step{opening, joining,
				{nil, later(7, 2, "closed"), "updated for 2 with a comment"}, {nil, later(8, 3, "closed"), "updated for 2 to " + closing + " with a comment"}},
				closing + ", 3 comments", "7 8"},
			{"it is reopened with one of them", []step{opening, joining,
				{nil, later(7, 2, "closed"), "updated for 2 with a comment"}, {nil, later(8, 3, "closed"), "updated for 2 to " + closing + " with a comment"},
				{nil, later(7, 4, "in_progress"), "updated for 2 to " + reopened + " with a comment"}},
				reopened + ", 4 comments", "7 8"},
			{"a detection that the bridge closed counts as closed", []step{opening, joining,
				{nil, own, ""}, {nil, later(8, 3, "closed"), "updated for 2 to " + closing + " with a comment"}},
				closing + ", 2 comments", "7 8"},
			{"a detection that joins closed leaves it open until the others are", []step{opening, {nil, with(t, 1, version(t, 8, 1, "closed")), "updated for 2 with a comment"},
				{nil, later(7, 2, "closed"), "updated for 2 to " + closing + " with a comment"}},
				closing + ", 2 comments", "7 8"},
			{"it is closed and reopened with detections whose status was never set", []step{{nil, with(t, 1, version(t, 7, 0, "")), "opened for 1"},
				{nil, later(7, 1, "closed"), "updated for 1 to " + closing + " with a comment"}, {nil, later(7, 2, ""), "updated for 1 to " + reopened + " with a comment"}},
				reopened + ", 2 comments", "7"},
			{"a closed project is a conflict, and the detection is linked", []step{opening,
				{func(i *ticket) { i.Archived = true }, first(8, 1), "conflict for 2 (it has no comment on the event)"}},
				o.initial + ", 0 comments", "7 8"},
		} {
			t.Run(test.name, func(t *testing.T) {
				f, before := newGrouping(t, o), len(o.opened())
				defer func() {
					for _, id := range o.opened()[before:] {
						o.change(id, func(i *ticket) { i.Deleted = true })
					}
				}()
				for n, s := range test.steps {
					if s.person != nil {
						o.change(o.last(), s.person)
					}
					require.NoError(t, f.send(t, s.event))
					require.Equal(t, f.reported(t), s.report, "the report of step", n)
					o.pass(searchDelay)
				}
				var all []string
				for _, id := range o.opened()[before:] {
					all = append(all, o.look(id))
				}
				assert.Equal(t, strings.Join(all, "; "), test.want)
				assert.Equal(t, f.linked(before), test.linked)
			})
		}
		t.Run("a deleted ticket is opened again for all of them, where that is configured", func(t *testing.T) {
			f, before := newGrouping(t, o), len(o.opened())
			f.follow.OpenAgain = true
			require.NoError(t, f.send(t, first(7, 0), first(8, 1)))
			o.change(o.last(), func(i *ticket) { i.Deleted = true })
			f.sendUntilDelivered(t, later(8, 2, "in_progress"), first(9, 3))
			assert.Equal(t, f.linked(before), "7 8 9")
			o.change(o.last(), func(i *ticket) { i.Deleted = true })
		})
	})
}

// A person moves an issue to another project, which gives it another key.
func TestATicketIsFollowedUnderAnotherID(t *testing.T) {
	eachFollower(t, func(t *testing.T, o *tool) {
		if o.rename == nil {
			return
		}
		for _, test := range []struct {
			name    string
			events  []transform.Event // of which the first ones are delivered before
			before  int
			reports string
			want    string
			linked  string
		}{
			{"that is reported, and the detection is linked with it",
				[]transform.Event{with(t, 0, version(t, 7, 0, "new")), with(t, 0, changed(t, 7, 1, "closed", "", "status")), with(t, 0, changed(t, 7, 2, "in_progress", "", "status"))}, 1,
				"updated from its old id to " + o.states["closed"].Status + " with a comment, updated to " + o.states["reopened"].Status + " with a comment",
				o.states["reopened"].Status + ", 2 comments", "7"},
			{"as are the other detections of its group",
				[]transform.Event{with(t, 1, version(t, 7, 0, "new")), with(t, 1, version(t, 8, 1, "new")), with(t, 1, changed(t, 8, 2, "closed", "", "status")), with(t, 1, version(t, 9, 3, "new"))}, 2,
				"updated for 2 from its old id with a comment, updated for 3 with a comment",
				o.initial + ", 3 comments", "7 8 9"},
			{"as is a detection that joins it",
				[]transform.Event{with(t, 1, version(t, 7, 0, "new")), with(t, 1, version(t, 8, 1, "new"))}, 1,
				"updated for 2 from its old id with a comment",
				o.initial + ", 1 comment", "7 8"},
		} {
			t.Run(test.name, func(t *testing.T) {
				f, before := newGrouping(t, o), len(o.opened())
				require.NoError(t, f.send(t, test.events[:test.before]...))
				f.reported(t)
				old := o.last()
				id := o.rename(old)
				require.NoError(t, f.send(t, test.events[test.before:]...))
				assert.Equal(t, f.reported(t), test.reports)
				assert.Equal(t, o.look(id), test.want)
				assert.Equal(t, f.linked(before), test.linked)
				for _, r := range require.Value(f.store.Read(t.Context(), 0, checkpoint.Batch{}))(t) {
					var data struct{ Ticket transform.TicketReport }
					require.NoError(t, json.Unmarshal(r.Event.Data(), &data))
					if data.Ticket.MovedFrom != "" {
						assert.Equal(t, data.Ticket.MovedFrom+" "+data.Ticket.TicketID, old+" "+id)
					}
				}
				o.change(id, func(i *ticket) { i.Deleted = true })
			})
		}
	})
}

// A person moves an issue to another project and back, so that the detection is linked with the same key twice.
func TestATicketIsFollowedUnderItsOldIDAgain(t *testing.T) {
	eachFollower(t, func(t *testing.T, o *tool) {
		if o.rename == nil {
			return
		}
		f := newFollowing(t, o)
		require.NoError(t, f.send(t, version(t, 7, 0, "new")))
		first := o.last()
		second := o.rename(first)
		require.NoError(t, f.send(t, changed(t, 7, 1, "closed", "", "status")))
		require.Equal(t, o.rename(second), first)
		reopened := changed(t, 7, 2, "in_progress", "", "status")
		require.NoError(t, f.send(t, reopened, reopened))
		assert.EqualSlices(t, f.links, []string{"7 " + first, "7 " + second, "7 " + first})
		assert.Equal(t, o.look(first), o.states["reopened"].Status+", 2 comments")
	})
}

// The detection that opens a ticket may become a dead letter before the outcome is known.
func TestAGroupDoesNotWaitForeverForTheTicketOfAnother(t *testing.T) {
	eachFollower(t, func(t *testing.T, o *tool) {
		first, second := with(t, 1, version(t, 7, 0, "new")), with(t, 1, version(t, 8, 1, "new"))
		for _, test := range []struct {
			name    string
			fault   fault
			reports string
			linked  string // the tickets, with their detections
		}{
			{"a ticket that was opened is found and joined", unsaid, "opened for 1, updated for 2 with a comment", "7 8"},
			{"a ticket that was not opened is opened by the next detection, and joined", unread, "opened for 1, updated for 2 with a comment", "7 8"},
			{"a ticket that was refused is opened by the next detection, and joined", refused, "opened for 1, updated for 2 with a comment", "7 8"},
		} {
			t.Run(test.name, func(t *testing.T) {
				f, before := newGrouping(t, o), len(o.opened())
				o.fail(none, test.fault)
				assert.Error(t, f.send(t, first), "it counts as delivered")
				if test.fault == refused {
					require.NoError(t, f.send(t, second))
				} else {
					f.sendUntilDelivered(t, second)
				}
				o.pass(searchDelay)
				f.sendUntilDelivered(t, first)
				assert.Equal(t, f.reported(t), test.reports)
				assert.Equal(t, f.linked(before), test.linked)
				o.change(o.last(), func(i *ticket) { i.Deleted = true })
			})
		}
	})
}

// A detection keeps its place on a ticket although what it did there could not be stored, and others
// came before it was tried again.
func TestADetectionKeepsItsPlaceInAGroup(t *testing.T) {
	eachFollower(t, func(t *testing.T, o *tool) {
		f, before := newGrouping(t, o), len(o.opened())
		assert.True(t, f.preset().Undivided, "two detections of a group may be sent at the same time")
		store, calls := presettest.Faulty(f.memory), 0
		all := make([]transform.Event, 4)
		for i := range all {
			all[i] = with(t, 1, version(t, 7+i, i, "new"))
		}
		require.NoError(t, f.send(t, all[0], all[1]))
		store.Remember = func() error {
			if calls++; calls > 1 {
				return errors.New("the disk is full")
			}
			return nil
		}
		assert.Error(t, f.send(t, all[2]), "it counts as delivered")
		store.Remember = nil
		require.NoError(t, f.send(t, all[3], all[2]))
		assert.Equal(t, f.linked(before), "7 8 9, 10")
		assert.Equal(t, o.see(o.opened()[before]).Comments, 2, "comments")
		for _, id := range o.opened()[before:] {
			o.change(id, func(i *ticket) { i.Deleted = true })
		}
	})
}

// Whatever happens in any order, and however often something fails or events come again, each
// detection has one ticket, each change is one comment, and the last state arrives.
func TestEachDetectionOfAGroupHasOneTicket(t *testing.T) {
	detection := 9000
	checkFollowers(t, func(r *rapid.T, o *tool) {
		f, before := newGrouping(t, o), len(o.opened())
		store := presettest.Faulty(f.memory)
		status, offenders := map[int]string{}, map[int]int{}
		var known []int
		changes, minute := 0, 0
		for range rapid.IntRange(1, 8).Draw(r, "batches") {
			var batch []transform.Event
			for range rapid.IntRange(1, 4).Draw(r, "events") {
				minute++
				if len(known) == 0 || rapid.Bool().Draw(r, "a new detection") {
					detection++
					known = append(known, detection)
					status[detection], offenders[detection] = "new", rapid.IntRange(0, 2).Draw(r, "offender")
					batch = append(batch, with(t, offenders[detection], version(t, detection, minute, "new")))
					continue
				}
				changes++
				id := rapid.SampledFrom(known).Draw(r, "detection")
				if status[id] != "closed" {
					status[id] = "closed"
				} else {
					status[id] = "in_progress"
				}
				batch = append(batch, with(t, offenders[id], changed(t, id, minute, status[id], "", "status")))
			}
			o.fail(rapid.SliceOfN(rapid.SampledFrom([]fault{none, none, none, unread, unsaid, busy}), 0, 12).Draw(r, "faults")...)
			memoryFails := failing(rapid.SliceOfN(rapid.Bool(), 0, 4).Draw(r, "the memory fails"))
			store.Remember = func() error {
				if memoryFails() {
					return errors.New("the disk is full")
				}
				return nil
			}
			f.sendUntilDelivered(t, batch...)
			if rapid.Bool().Draw(r, "the batch comes again") {
				f.sendUntilDelivered(t, batch...)
			}
		}
		tickets := o.opened()[before:]
		require.Equal(r, len(f.links), len(known), "links", f.links)
		of, comments := map[string][]int{}, 0
		for _, link := range f.links {
			id, ticket, _ := strings.Cut(link, " ")
			of[ticket] = append(of[ticket], require.Value(strconv.Atoi(id))(r))
		}
		for _, ticket := range tickets {
			ids := of[ticket]
			require.True(r, len(ids) >= 1 && len(ids) <= 3, "detections of", ticket, ids)
			closed := !slices.ContainsFunc(ids, func(id int) bool { return status[id] != "closed" })
			require.Equal(r, o.see(ticket).Status == o.states["closed"].Status, closed, fmt.Sprint("closed: ", ticket, ids))
			for _, id := range ids {
				require.True(r, offenders[id] == offenders[ids[0]] && (offenders[id] > 0 || len(ids) == 1), "offenders of", ticket, ids)
			}
			comments += o.see(ticket).Comments
		}
		require.Equal(r, comments, len(known)-len(tickets)+changes, "comments")
	})
}
