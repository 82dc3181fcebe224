package appliance_test

import (
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestPatchDetection(t *testing.T) {
	t.Run("mod_time is the appliance's time", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.Add(standin.Detection{ID: 7, ModTime: now - minute})
		a.SetSkew(17 * time.Minute)
		c.want(204, "PATCH", "/detections/7", `{"status":"new"}`)
		assert.Equal(t, a.Latest()[0].ModTime, now+17*minute, "it is")
		assert.Equal(t, len(a.History()), 2, "versions in the history")
	})
	t.Run("participants are modified", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.Add(standin.Detection{ID: 7, Participants: []standin.Participant{{ID: 71, Role: "offender"}, {ID: 72}}})
		c.want(204, "PATCH", "/detections/7", `{"participants":[{"id":72,"usernames":["ada"],"origins":["192.0.2.1"]}]}`)
		d := a.Latest()[0].Detection()
		m := d.Participants[1]
		assert.True(t, len(m.Usernames) == 1 && m.Origins[0] == "192.0.2.1" && d.Participants[0].Usernames == nil, "they are", d.Participants)
	})
}

func TestPatchesAreKeptInTheirOrder(t *testing.T) {
	ticket := standin.TicketID{ID: "T-1"}
	setUp := func(t *testing.T, o standin.Options) (*standin.Appliance, *caller) {
		a, c := serve(t, o)
		a.Add(standin.Detection{ID: 1, ModTime: now - 3, TicketID: ticket}, standin.Detection{ID: 2, ModTime: now - 2, TicketID: ticket})
		return a, c
	}
	t.Run("those that were refused among them", func(t *testing.T) {
		a, c := setUp(t, standin.Options{User: "bridge"})
		c.want(204, "PATCH", "/detections/1", `{"assignee":"ana"}`)
		c.want(404, "PATCH", "/detections/9", `{"assignee":"ana"}`)
		c.want(400, "PATCH", "/detections/1", `[]`)
		c.want(204, "PATCH", "/detections/tickets", `{"ticket_id":"T-1","status":"new"}`)
		a.SetTicketing(false)
		c.want(422, "PATCH", "/detections/tickets", `{"ticket_id":"T-1","status":"closed"}`)
		want := []struct {
			path, body   string
			status, made int
		}{
			{"/detections/1", `{"assignee":"ana"}`, 204, 1},
			{"/detections/9", `{"assignee":"ana"}`, 404, 0},
			{"/detections/1", `[]`, 400, 0},
			{"/detections/tickets", `{"ticket_id":"T-1","status":"new"}`, 204, 2},
			{"/detections/tickets", `{"ticket_id":"T-1","status":"closed"}`, 422, 0},
		}
		got := a.Patches()
		require.Equal(t, len(got), len(want), "were kept")
		for i, w := range want {
			p := got[i]
			assert.True(t, p.Path == w.path && string(p.Body) == w.body && p.Status == w.status && len(p.Made) == w.made, i, p, w)
		}
		made := got[3].Made[0]
		assert.True(t, made.Status == "new" && made.By == "bridge", "it made", made)
	})
	t.Run("what an analyst changes is no PATCH, and carries a name", func(t *testing.T) {
		a, _ := setUp(t, standin.Options{})
		require.NoError(t, a.UpdateAs("ana", func(d *standin.Detection) { d.Status = "closed" }, 1))
		history := a.History()
		v := history[2]
		assert.True(t, len(a.Patches()) == 0 && v.By == "ana" && v.Status == "closed" && v.ModTime == now && history[0].By == "", "it", v)
	})
	t.Run("one whose answer was lost is kept too", func(t *testing.T) {
		a, c := setUp(t, standin.Options{})
		a.SetHazards(standin.Hazards{Lost: 1})
		_, err := c.send("PATCH", "/api/v1/detections/1", `{"assignee":"ana"}`)
		require.True(t, err != nil, "it was answered")
		got := a.Patches()
		assert.True(t, len(got) == 1 && got[0].Status == 204, got)
	})
	t.Run("a run without history keeps none", func(t *testing.T) {
		a, c := setUp(t, standin.Options{NoHistory: true})
		c.want(204, "PATCH", "/detections/1", `{"assignee":"ana"}`)
		assert.Empty(t, a.Patches())
	})
}

func TestANumericTicketStays(t *testing.T) {
	a, c := serve(t, standin.Options{})
	a.Add(standin.Detection{ID: 4, ModTime: now, TicketID: standin.TicketID{ID: "3041", Numeric: true}})
	c.want(204, "PATCH", "/detections/tickets", `{"ticket_id":"3041","status":"new"}`)
	d := c.detection("4")
	assert.True(t, d["ticket_id"] == 3041.0 && d["status"] == "new", "changed to", d)
}
