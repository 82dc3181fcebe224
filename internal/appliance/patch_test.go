package appliance_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"ndrbridge/internal/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestChangesAreEncoded(t *testing.T) {
	id, nobody, closed := "SEC-1", "", "closed"
	for _, c := range []struct {
		name   string
		call   func(*appliance.Client) error
		answer int
		says   string
		path   string
		body   map[string]any
		status int // of the error; 0: none
	}{
		{
			"a detection is linked", func(c *appliance.Client) error {
				return c.PatchDetection(t.Context(), 25769804127, appliance.DetectionChange{TicketID: &id})
			},
			204, "", "/api/v1/detections/25769804127", map[string]any{"ticket_id": "SEC-1"}, 0,
		},
		{
			"an empty text is null, and a field that is not named is left alone", func(c *appliance.Client) error {
				return c.PatchTicket(t.Context(), id, appliance.DetectionChange{Status: &closed, Assignee: &nobody})
			},
			204, "", "/api/v1/detections/tickets", map[string]any{"ticket_id": "SEC-1", "status": "closed", "assignee": nil}, 0,
		},
		{
			"an answer of tracking that is off keeps its status", func(c *appliance.Client) error {
				return c.PatchTicket(t.Context(), id, appliance.DetectionChange{Status: &closed})
			},
			422, "off", "/api/v1/detections/tickets", map[string]any{"ticket_id": "SEC-1", "status": "closed"}, 422,
		},
		{
			"unexpected JSON is a success", func(c *appliance.Client) error {
				return c.PatchTicket(t.Context(), id, appliance.DetectionChange{Status: &closed})
			},
			200, "{}\n", "/api/v1/detections/tickets", map[string]any{"ticket_id": "SEC-1", "status": "closed"}, 0,
		},
		{
			"a login page is not a success", func(c *appliance.Client) error {
				return c.PatchTicket(t.Context(), id, appliance.DetectionChange{Status: &closed})
			},
			200, "<html>", "/api/v1/detections/tickets", map[string]any{"ticket_id": "SEC-1", "status": "closed"}, 200,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var path string
			var body map[string]any
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path = r.Method + " " + r.URL.Path
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&body))
				w.WriteHeader(c.answer)
				io.WriteString(w, c.says)
			}))
			defer server.Close()
			client, err := appliance.New(appliance.Options{URL: server.URL, Key: func() (string, error) { return "k", nil }})
			require.NoError(t, err)
			defer client.Close()
			err = c.call(client)
			assert.Equal(t, path, "PATCH "+c.path)
			assert.DeepEqual(t, body, c.body)
			e, _ := errors.AsType[*appliance.Error](err)
			assert.True(t, (err != nil) == (c.status != 0) && (e == nil || e.Status == c.status), err)
		})
	}
}

func TestTicketing(t *testing.T) {
	for _, c := range []struct {
		name, answer   string
		enabled, known bool
	}{
		{"they are", `{"enabled": true}`, true, true},
		{"they are not", `{"enabled": false}`, false, true},
		{"an answer of another shape does not say", `{"state": "on"}`, false, false},
		{"nor does an answer that is not an object", `[]`, false, false},
		{"nor does one of another type", `{"enabled": "yes"}`, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, c.answer)
			}))
			defer server.Close()
			client, err := appliance.New(appliance.Options{URL: server.URL, Key: func() (string, error) { return "k", nil }})
			require.NoError(t, err)
			defer client.Close()
			enabled, known, err := client.Ticketing(t.Context())
			assert.True(t, enabled == c.enabled && known == c.known && err == nil, enabled, known, err)
		})
	}
}
