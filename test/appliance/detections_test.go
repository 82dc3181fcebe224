package appliance_test

import (
	"net/http"
	"slices"
	"testing"

	standin "ndrbridge/test/appliance"

	"ndrbridge/test/assert"
)

func TestGetDetection(t *testing.T) {
	a, c := serve(t, standin.Options{})
	a.Add(someDetections()...)

	t.Run("a detection is shown as the search shows it", func(t *testing.T) {
		one := c.want(http.StatusOK, "GET", "/detections/25769803780", "").body
		all := c.want(http.StatusOK, "POST", "/detections/search", `{}`).body
		assert.Contains(t, all, one)
	})
	t.Run("what has no value is null", func(t *testing.T) {
		for id, fields := range map[string][]string{"2": {"end_time", "ticket_url"}, "3": {"risk_score", "assignee", "status", "resolution"}} {
			d := c.detection(id)
			for _, field := range fields {
				value, ok := d[field]
				assert.True(t, ok && value == nil, field, value)
			}
		}
	})
	t.Run("what has no value can be absent", func(t *testing.T) {
		a, c := serve(t, standin.Options{OmitEmpty: true})
		a.Add(someDetections()...)
		for id, fields := range map[string][]string{"2": {"end_time", "ticket_url"}, "3": {"risk_score"}} {
			d := c.detection(id)
			for _, field := range fields {
				value, ok := d[field]
				assert.False(t, ok, field, value)
			}
			_, ok := d["resolution"]
			assert.True(t, ok, "resolution is absent from", d)
		}
	})
	t.Run("a ticket has a URL, which changes with its id", func(t *testing.T) {
		a, c := serve(t, standin.Options{TicketURL: "https://jira.example/browse/$ticket_id?view=all"})
		a.Add(someDetections()...)
		for _, change := range []struct{ body, want string }{
			{`{"status":"new"}`, "https://jira.example/browse/T-1?view=all"},
			{`{"ticket_id":"T 2/3"}`, "https://jira.example/browse/T%202%2F3?view=all"},
		} {
			c.want(204, "PATCH", "/detections/1", change.body)
			got := c.detection("1")["ticket_url"]
			assert.True(t, got == change.want, "it", got, change.want)
		}
		c.want(204, "PATCH", "/detections/1", `{"ticket_id":null}`)
		got := c.detection("1")["ticket_url"]
		assert.True(t, got == nil, "without a ticket it", got)
	})
	t.Run("a ticket_id can be a number", func(t *testing.T) {
		got := c.detection("3")["ticket_id"]
		assert.True(t, got == 3041.0, "it", got)
	})
	t.Run("an unknown id is a problem", func(t *testing.T) {
		got := c.want(http.StatusNotFound, "GET", "/detections/99", "")
		assert.Equal(t, got.header.Get("Content-Type"), "application/problem+json", "the type is", got.body)
	})
}

func TestRandomDetections(t *testing.T) {
	options := standin.Options{Seed: 3, Size: 1000}
	a, c := serve(t, options)
	a.AddMany(50)
	first := idsOf(t, c.want(http.StatusOK, "GET", "/detections?limit=10", "").body)

	t.Run("a selection holds nothing twice", func(t *testing.T) {
		distinct := slices.Clone(first)
		slices.Sort(distinct)
		assert.Equal(t, len(slices.Compact(distinct)), 10, "selected", first)
	})
	t.Run("the next one is another", func(t *testing.T) {
		second := idsOf(t, c.want(http.StatusOK, "GET", "/detections?limit=10", "").body)
		assert.False(t, slices.Equal(first, second), "selected", first, "twice")
	})
	t.Run("a limit over 20000 is refused", func(t *testing.T) {
		c.want(http.StatusBadRequest, "GET", "/detections?limit=20001", "")
		c.want(http.StatusBadRequest, "GET", "/detections?limit=many", "")
	})
}

func TestANoteGoesWithItsDetection(t *testing.T) {
	a, c := serve(t, standin.Options{})
	a.Add(standin.Detection{ID: 7})
	c.want(204, "PUT", "/detections/7/notes", `{"note":"seen"}`)
	a.Hide(7)
	a.Add(standin.Detection{ID: 7})
	c.want(404, "GET", "/detections/7/notes", "")
}
