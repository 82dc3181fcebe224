package appliance_test

import (
	"net/http"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

func TestPatchDetection(t *testing.T) {
	tests := []struct {
		name, before, body string // before: a patch that comes first
		status             int
		want               map[string]any // of the detection
	}{
		{"fields are set", "", `{"ticket_id":"T-9","assignee":"ada","status":"in_progress"}`, 204,
			map[string]any{"ticket_id": "T-9", "assignee": "ada", "status": "in_progress"}},
		{"null clears", `{"ticket_id":"T-9","assignee":"ada","status":"new"}`, `{"ticket_id":null,"assignee":null,"status":null}`, 204,
			map[string]any{"ticket_id": nil, "assignee": nil, "status": nil}},
		{"what is absent stays", `{"assignee":"ada","status":"new"}`, `{"ticket_id":"T-1"}`, 204,
			map[string]any{"assignee": "ada", "status": "new"}},
		{"closed has a resolution", "", `{"status":"closed","resolution":"action_taken"}`, 204,
			map[string]any{"status": "closed", "resolution": "action_taken"}},
		{"a resolution comes after closed", `{"status":"closed"}`, `{"resolution":"no_action_taken"}`, 204,
			map[string]any{"resolution": "no_action_taken"}},
		{"a resolution goes with any status", "", `{"resolution":"action_taken"}`, 204, map[string]any{"status": nil, "resolution": "action_taken"}},
		{"and with another one", "", `{"status":"new","resolution":"action_taken"}`, 204,
			map[string]any{"status": "new", "resolution": "action_taken"}},
		{"another status clears the resolution", `{"status":"closed","resolution":"action_taken"}`, `{"status":"acknowledged"}`, 204,
			map[string]any{"status": "acknowledged", "resolution": nil}},
		{"a resolution can be cleared with the status", `{"status":"closed","resolution":"action_taken"}`, `{"status":"new","resolution":null}`, 204,
			map[string]any{"status": "new", "resolution": nil}},
		{"an unknown status is refused", "", `{"status":"open"}`, 400, map[string]any{"status": nil}},
		{"an unknown resolution is refused", "", `{"status":"closed","resolution":"later"}`, 400, map[string]any{"status": nil}},
		{"an unknown field is refused", "", `{"status":"new","detection_id":1}`, 400, map[string]any{"status": nil}},
		{"a ticket_id is a string", "", `{"ticket_id":7}`, 400, map[string]any{"ticket_id": nil}},
		{"participants cannot be added", "", `{"status":"new","participants":[{"id":999,"usernames":["x"]}]}`, 422, map[string]any{"status": nil}},
		{"a number that no integer can be", "", `{"participants":[{"id":1e400}]}`, 400, nil},
		{"a fraction for an id", "", `{"participants":[{"id":71.5}]}`, 400, nil},
		{"an id beyond 64 bits", "", `{"participants":[{"id":92233720368547758080}]}`, 400, nil},
		{"a participant has an id", "", `{"participants":[{"usernames":["x"]}]}`, 400, nil},
		{"a participant has no other fields", "", `{"participants":[{"id":71,"role":"victim"}]}`, 400, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a, c := serve(t, standin.Options{})
			a.Add(standin.Detection{ID: 7, Title: "x", ModTime: now - minute, Participants: []standin.Participant{{ID: 71}}})
			if test.before != "" {
				c.want(204, "PATCH", "/detections/7", test.before)
			}
			got := c.want(test.status, "PATCH", "/detections/7", test.body)
			if test.status == 204 && (got.body != "" || got.header.Get("Date") == "") {
				t.Errorf("the answer is %+v", got)
			}
			d := c.detection("7")
			for field, want := range test.want {
				if d[field] != want {
					t.Errorf("%s is %v, want %v", field, d[field], want)
				}
			}
		})
	}

	t.Run("mod_time is the appliance's time", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.Add(standin.Detection{ID: 7, ModTime: now - minute})
		a.SetSkew(17 * time.Minute)
		c.want(204, "PATCH", "/detections/7", `{"status":"new"}`)
		if got := a.Latest()[0].ModTime; got != now+17*minute {
			t.Errorf("it is %d", got)
		}
		if got := len(a.History()); got != 2 {
			t.Errorf("the history holds %d versions", got)
		}
	})
	t.Run("participants are modified", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		a.Add(standin.Detection{ID: 7, Participants: []standin.Participant{{ID: 71, Role: "offender"}, {ID: 72}}})
		c.want(204, "PATCH", "/detections/7", `{"participants":[{"id":72,"usernames":["ada"],"origins":["192.0.2.1"]}]}`)
		d := a.Latest()[0].Detection()
		if m := d.Participants[1]; len(m.Usernames) != 1 || m.Origins[0] != "192.0.2.1" || d.Participants[0].Usernames != nil {
			t.Errorf("they are %+v", d.Participants)
		}
	})
	t.Run("an unknown id is a problem", func(t *testing.T) {
		_, c := serve(t, standin.Options{})
		c.want(http.StatusNotFound, "PATCH", "/detections/7", `{"status":"new"}`)
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
		if len(got) != len(want) {
			t.Fatalf("%d were kept, want %d", len(got), len(want))
		}
		for i, w := range want {
			if p := got[i]; p.Path != w.path || string(p.Body) != w.body || p.Status != w.status || len(p.Made) != w.made {
				t.Errorf("%d is %+v, want %+v", i, p, w)
			}
		}
		if made := got[3].Made[0]; made.Status != "new" || made.By != "bridge" {
			t.Errorf("it made %+v", made)
		}
	})
	t.Run("what an analyst changes is no PATCH, and carries a name", func(t *testing.T) {
		a, _ := setUp(t, standin.Options{})
		require.NoError(t, a.UpdateAs("ana", func(d *standin.Detection) { d.Status = "closed" }, 1))
		history := a.History()
		if v := history[2]; len(a.Patches()) != 0 || v.By != "ana" || v.Status != "closed" || v.ModTime != now || history[0].By != "" {
			t.Errorf("it is %+v", v)
		}
	})
	t.Run("one whose answer was lost is kept too", func(t *testing.T) {
		a, c := setUp(t, standin.Options{})
		a.SetHazards(standin.Hazards{Lost: 1})
		if _, err := c.send("PATCH", "/api/v1/detections/1", `{"assignee":"ana"}`); err == nil {
			t.Fatal("it was answered")
		}
		if got := a.Patches(); len(got) != 1 || got[0].Status != 204 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a run without history keeps none", func(t *testing.T) {
		a, c := setUp(t, standin.Options{NoHistory: true})
		c.want(204, "PATCH", "/detections/1", `{"assignee":"ana"}`)
		if got := a.Patches(); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestPatchTickets(t *testing.T) {
	ticket := standin.TicketID{ID: "T-1"}
	setUp := func(t *testing.T) (*standin.Appliance, *caller) {
		a, c := serve(t, standin.Options{})
		a.Add(
			standin.Detection{ID: 1, ModTime: now - 3, TicketID: ticket},
			standin.Detection{ID: 2, ModTime: now - 2, TicketID: standin.TicketID{ID: "T-2"}},
			standin.Detection{ID: 3, ModTime: now - 1, TicketID: ticket},
		)
		return a, c
	}
	t.Run("everything with the ticket changes at once", func(t *testing.T) {
		a, c := setUp(t)
		c.want(204, "PATCH", "/detections/tickets", `{"ticket_id":"T-1","status":"closed","resolution":"action_taken","assignee":"ada"}`)
		changed := a.Latest()[1:]
		for _, v := range changed {
			if v.ModTime != now || v.Status != "closed" || v.Resolution != "action_taken" || v.Assignee != "ada" || v.TicketID != "T-1" {
				t.Errorf("changed to %+v", v)
			}
		}
		wantIDs(t, []int64{changed[0].ID, changed[1].ID}, 1, 3)
	})
	t.Run("ticket_id itself stays, a number too", func(t *testing.T) {
		a, c := setUp(t)
		a.Add(standin.Detection{ID: 4, ModTime: now, TicketID: standin.TicketID{ID: "3041", Numeric: true}})
		c.want(204, "PATCH", "/detections/tickets", `{"ticket_id":"3041","status":"new"}`)
		if d := c.detection("4"); d["ticket_id"] != 3041.0 || d["status"] != "new" {
			t.Errorf("changed to %v", d)
		}
	})
	t.Run("without ticket tracking nothing is linked", func(t *testing.T) {
		a, c := setUp(t)
		a.SetTicketing(false)
		c.want(422, "PATCH", "/detections/1", `{"ticket_id":"T-9"}`)
		c.want(422, "PATCH", "/detections/1", `{"ticket_id":null,"status":"closed"}`)
		c.want(422, "PATCH", "/detections/tickets", `{"ticket_id":"T-1","status":"new"}`)
		c.want(422, "PUT", "/detections/1/notes", `{"note":"x"}`)
		c.want(204, "PATCH", "/detections/1", `{"status":"new","assignee":"ada"}`)
		if d := c.detection("1"); d["ticket_id"] != "T-1" || d["status"] != "new" {
			t.Errorf("changed to %v", d)
		}
	})
	t.Run("without ticket tracking it is a state of the configuration", func(t *testing.T) {
		_, c := setUp(t)
		if got := c.want(200, "GET", "/service/ticketing", "").body; got != `{"enabled":true}` {
			t.Errorf("the state is %s", got)
		}
		c.want(204, "PATCH", "/service/ticketing", `{"enabled":false}`)
		got := c.want(422, "PATCH", "/detections/tickets", `{"ticket_id":"T-1","status":"new"}`)
		if got.body != `{"detail":"external ticket tracking is not enabled"}` {
			t.Errorf("the body is %s", got.body)
		}
		c.want(204, "PATCH", "/service/ticketing", `{"enabled":true}`)
		c.want(204, "PATCH", "/detections/tickets", `{"ticket_id":"T-1","status":"new"}`)
	})
	t.Run("an unknown ticket is a problem", func(t *testing.T) {
		_, c := setUp(t)
		c.want(404, "PATCH", "/detections/tickets", `{"ticket_id":"T-3","status":"new"}`)
	})
}
