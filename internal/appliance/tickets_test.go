package appliance_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"ndrbridge/internal/appliance"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// meet returns an appliance that has detections 1 to 3 with the ticket SEC-1 and 4
// with another, and a client of it.
func meet(t *testing.T, o standin.Options) (*standin.Appliance, *appliance.Client) {
	t.Helper()
	a := standin.New(o)
	for id, ticket := range map[int64]string{1: "SEC-1", 2: "SEC-1", 3: "SEC-1", 4: "SEC-2"} {
		a.Add(standin.Detection{ID: id, ModTime: 1000 + id, TicketID: standin.TicketID{ID: ticket}})
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	client, err := appliance.New(appliance.Options{URL: server.URL, Key: func() (string, error) { return standin.DefaultAPIKey, nil }})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return a, client
}

func TestTicketsAtAnAppliance(t *testing.T) {
	closed, id := "closed", "SEC-9"
	t.Run("a detection is linked, and found by its ticket", func(t *testing.T) {
		a, c := meet(t, standin.Options{})
		require.NoError(t, c.PatchDetection(t.Context(), 4, appliance.DetectionChange{TicketID: &id}))
		require.NoError(t, c.PatchTicket(t.Context(), id, appliance.DetectionChange{Status: &closed}))
		var page appliance.Page
		err := c.DetectionsWithTicket(t.Context(), id, 0, &page)
		assert.True(t, err == nil && len(page.Objects) == 1, len(page.Objects), "detections", err)
		patches := a.Patches()
		assert.True(t, len(patches) == 2 && patches[1].Made[0].Status == "closed", patches)
	})
	t.Run("a ticket's detections come in pages, whatever the appliance takes for one", func(t *testing.T) {
		a, c := meet(t, standin.Options{})
		a.SetHazards(standin.Hazards{LimitCap: 2})
		var page appliance.Page
		found := 0
		for _, want := range []int{2, 1, 0} {
			err := c.DetectionsWithTicket(t.Context(), "SEC-1", found, &page)
			require.True(t, err == nil && len(page.Objects) == want, len(page.Objects), "detections behind", found, err, want)
			found += want
		}
	})
	t.Run("whether tickets are tracked is what the appliance says", func(t *testing.T) {
		a, c := meet(t, standin.Options{Product: "Service"})
		for _, on := range []bool{true, false} {
			a.SetTicketing(on)
			enabled, known, err := c.Ticketing(t.Context())
			assert.True(t, enabled == on && known && err == nil, enabled, known, err, on)
		}
	})
	for _, c := range []struct {
		name      string
		hazards   standin.Hazards
		off       bool
		ticket    string
		status    string // that is asked for
		want      int
		refused   bool
		throttled bool
		after     time.Duration
	}{
		{name: "tracking that is off is a 422", off: true, ticket: "SEC-1", status: "closed", want: http.StatusUnprocessableEntity},
		{name: "a ticket that nothing has is a 404", ticket: "SEC-3", status: "closed", want: http.StatusNotFound},
		{name: "a wrong value is a 400", ticket: "SEC-1", status: "open", want: http.StatusBadRequest},
		{name: "a key that is not accepted is refused", hazards: standin.Hazards{Refusal: standin.RefusedJSON}, ticket: "SEC-1", status: "closed", want: http.StatusUnauthorized, refused: true},
		{name: "one that may not write is refused too", hazards: standin.Hazards{Refusal: standin.RefusedForbidden}, ticket: "SEC-1", status: "closed", want: http.StatusForbidden, refused: true},
		{name: "too many requests are reported with the wait", hazards: standin.Hazards{TooManyRequests: 1, RetryAfter: 3 * time.Second}, ticket: "SEC-1", status: "closed", want: http.StatusTooManyRequests, throttled: true, after: 3 * time.Second},
		{name: "an answer that was lost has no status", hazards: standin.Hazards{Lost: 1}, ticket: "SEC-1", status: "closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, client := meet(t, standin.Options{NoTicketing: c.off})
			a.SetHazards(c.hazards)
			err := client.PatchTicket(t.Context(), c.ticket, appliance.DetectionChange{Status: &c.status})
			e, ok := errors.AsType[*appliance.Error](err)
			assert.True(t, ok && e.Status == c.want && e.Refused() == c.refused && e.Throttled() == c.throttled && e.RetryAfter == c.after, err)
			if c.hazards.Lost > 0 && len(a.Patches()) != 1 {
				t.Errorf("it was sent %d times", len(a.Patches()))
			}
		})
	}
}
