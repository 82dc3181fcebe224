package bridge_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// find reports whether an inbox has received an event of a type that matches.
func (i *inbox) find(kind string, is func(transform.Event) bool) bool {
	return slices.ContainsFunc(i.of("io.ndrbridge."+kind), is)
}

func TestATicketIsWrittenAndRecognized(t *testing.T) {
	a, url := startAppliance(t, 3)
	id := history(a)[0].ID
	hasTicket := func(d *standin.Detection) {
		d.TicketID, d.Status, d.Resolution = standin.TicketID{ID: "SEC-1"}, "new", ""
	}
	require.NoError(t, a.Update(hasTicket, id))
	soc := startInbox(t)
	base := configuration(t, url, webhookSink("soc", soc.URL))
	base = strings.Replace(base, "rate_limit: 1000", "rate_limit: 1000\n    auth_retry: 100ms\n    blind_spots: {interval: 50ms}", 1)
	enabled := base + "\ntickets: {enabled: true}\n"
	r := run(t, enabled)
	await(t, "the backlog", func() bool { return soc.count("") == 3 })

	post := func(body string) {
		t.Helper()
		status, answer := r.send(t, "", body)
		require.Equal(t, status, http.StatusAccepted, answer)
	}
	post(`{"ticket_id": "SEC-1", "status": "acknowledged"}`)
	await(t, "the result of the command", func() bool {
		return soc.find("ticket.applied", func(e transform.Event) bool { return strings.Contains(string(e.Data()), "acknowledged") })
	})
	await(t, "the version that it made, marked", func() bool {
		return soc.find("detection.updated", func(e transform.Event) bool { return e.CausedBy == transform.CausedByWriteback })
	})
	require.NoError(t, a.Update(func(d *standin.Detection) { d.Assignee = "ana" }, id))
	await(t, "an analyst's edit, not marked", func() bool {
		return soc.find("detection.updated", func(e transform.Event) bool {
			return e.CausedBy == "" && strings.Contains(string(e.Data()), `"to":"ana"`)
		})
	})

	a.SetTicketing(false)
	post(`{"ticket_id": "SEC-1", "status": "closed"}`)
	await(t, "the writer to halt", func() bool {
		status := require.Value(r.control(t).Status(t.Context()))(t)
		of := status.Appliances[0].Tickets
		return of != nil && of.State == "halted" && strings.Contains(of.Error, "turn it on")
	})
	code, body := get(t, "http://"+r.AdminAddress()+"/readyz")
	assert.True(t, code != http.StatusOK && strings.Contains(body, "writing tickets to appliance hq is halted"), "ready", code, body)
	metrics := func() []string {
		_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
		return regexp.MustCompile(`(?m)^ndrbridge_ticket_\w+{appliance="hq".*`).FindAllString(metrics, -1)
	}
	got, want := metrics(), `ndrbridge_ticket_writer_state{appliance="hq"} 2`
	assert.True(t, slices.Contains(got, want) && len(got) >= 3, "metrics of a halted writer", got, "without", want)
	await(t, "the event about ticket tracking", func() bool {
		return soc.find("blindspot.opened", func(e transform.Event) bool { return strings.Contains(string(e.Data()), "ticket_tracking") })
	})
	r.reload(t, base)
	assert.Empty(t, metrics(), "metrics of a removed writer")
	await(t, "the log to report the pending commands", func() bool { return strings.Contains(r.log.String(), "tickets.enabled is false; they are kept") })
	a.SetTicketing(true)
	r.reload(t, enabled)
	await(t, "the event about its end", func() bool { return soc.find("blindspot.closed", func(transform.Event) bool { return true }) })
	assert.Equal(t, len(soc.of("io.ndrbridge.blindspot.opened")), 1, "events about ticket tracking")
	assert.Equal(t, strings.Count(r.log.String(), "tickets are not written until this is fixed"), 1, "lines of the log about it")
	await(t, "the pending command", func() bool {
		return soc.find("ticket.applied", func(e transform.Event) bool { return strings.Contains(string(e.Data()), "closed") })
	})
}
