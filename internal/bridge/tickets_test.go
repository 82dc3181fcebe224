package bridge_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"ndrbridge/internal/admin"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// send posts a ticket command to the running bridge.
func (r *running) send(t *testing.T, path, body string) (int, string) {
	t.Helper()
	answer, err := http.Post("http://"+r.AdminAddress()+"/api/v1/tickets"+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer answer.Body.Close()
	text := require.Value(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(text)
}

// patch changes something at a stand-in.
func patch(t *testing.T, address, path, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, address+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	answer := require.Value(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	require.Equal(t, answer.StatusCode/100, 2, "PATCH", path, answer.Status)
}

func TestCommandsFindTheirAppliance(t *testing.T) {
	one, first := startAppliance(t, 3)
	two, second := startAppliance(t, 0)
	two.AddMany(4) // the fourth has an id that only this one has
	soc := startInbox(t)
	yaml := configuration(t, first, webhookSink("soc", soc.URL))
	before, after, _ := strings.Cut(yaml, "appliances:\n")
	own, rest, _ := strings.Cut(after, "sinks:")
	other := strings.Replace(strings.Replace(own, "name: hq", "name: dc", 1), first, second, 1)
	yaml = before + "appliances:\n" + own + other + "sinks:" + rest
	r := run(t, yaml)
	await(t, "the detections of both", func() bool { return soc.count("") == 7 })
	status, body := r.send(t, "", `{"ticket_id": "SEC-1", "status": "closed", "appliance": "dc"}`)
	require.True(t, status == http.StatusNotFound && strings.Contains(body, "tickets.enabled is false"), status, body)
	changes := r.reload(t, yaml+"\ntickets: {enabled: true, webhooks: {generic: [{name: otrs, secret: s, verify: header}]}}\n")
	assert.EqualSlices(t, changes, []string{"tickets: changed", "appliance hq: changed", "appliance dc: changed"})
	all := history(two)
	last := all[3].ID
	patch(t, second, fmt.Sprintf("/api/v1/detections/%v", all[0].ID), `{"ticket_id": "SEC-7"}`)
	patch(t, second, fmt.Sprintf("/api/v1/detections/%v", all[1].ID), `{"ticket_id": "SEC-1"}`)
	for _, c := range []struct {
		name, body string
		want       string // the appliance; empty: it is refused
		down       bool   // the appliances cannot be asked
	}{
		{"by its name", `{"ticket_id": "SEC-1", "status": "closed", "appliance": "dc"}`, "dc", true},
		{"by an earlier command of the ticket", `{"ticket_id": "SEC-1", "status": "new"}`, "dc", true},
		{"by the detection that it links", fmt.Sprintf(`{"ticket_id": "SEC-2", "detection_id": %v}`, last), "dc", true},
		{"by the appliance that shows the ticket", `{"ticket_id": "SEC-7", "status": "closed"}`, "dc", false},
		{"a ticket that nobody knows is refused", `{"ticket_id": "SEC-99999", "status": "new"}`, "", false},
		{"a detection that nobody knows is refused", `{"ticket_id": "SEC-3", "detection_id": 999999999}`, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var hazards standin.Hazards
			if c.down {
				hazards = standin.Hazards{ServerError: 1, ServerErrorStatus: http.StatusServiceUnavailable}
			}
			one.SetHazards(hazards)
			two.SetHazards(hazards)
			status, body := r.send(t, "", c.body)
			if c.want == "" {
				assert.True(t, status == http.StatusUnprocessableEntity && strings.Contains(body, `"field":"appliance","allowed":["hq","dc"]`), status, body)
				return
			}
			require.Equal(t, status, http.StatusAccepted, body)
			taken, err := admin.API.ListTicketCommands.Call(t.Context(), r.control(t), admin.CommandsRequest{Limit: 100})
			assert.True(t, err == nil && taken.Commands[len(taken.Commands)-1].Appliance == c.want, taken, err, "want it at", c.want)
		})
	}
	t.Run("a webhook requires its secret", func(t *testing.T) {
		status, body := r.send(t, "/otrs", `{"ticket_id": "SEC-1", "status": "new"}`)
		assert.True(t, status == http.StatusUnauthorized && strings.Contains(body, "X-Webhook-Secret"), status, body)
	})
}
