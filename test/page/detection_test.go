//go:build e2e

package page

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// sendCommand posts a command to a bridge.
func sendCommand(t *testing.T, bridge, body string) {
	t.Helper()
	answer, err := http.Post(bridge+"/api/v1/commands", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.True(t, err == nil && answer.StatusCode == http.StatusAccepted, answer.Status, string(text), err)
}

func TestDetectionHasItsOwnPage(t *testing.T) {
	a, applianceURL := startAppliance(t)
	soc, lake := loopback.Receive(t), loopback.Receive(t)
	lake.Answer(http.StatusUnprocessableEntity)
	url, _ := startBridge(t, settings{
		appliances: strings.Replace(hq(applianceURL), "detections:", "rules: {write: true}, notes: {out: true}, detections:", 1), tickets: "tickets: {enabled: true}\n",
		sinks: webhook("soc", soc.URL) + webhook("lake", lake.URL) +
			strings.Replace(webhook("few", loopback.Receive(t).URL), "batch:", `match: 'detection.ticket_id == "SEC-7"', batch:`, 1),
	})
	d := a.Generate()
	const id = 1<<53 + 1 // beyond the precision of JavaScript's numbers
	risk := 83
	d.ID, d.Title, d.RiskScore, d.Categories = id, `<img src=x onerror="window.ran=1">`, &risk, []string{"sec"}
	a.Add(d)
	await(t, "the detection", func() bool { n, _ := count(soc); return n == 1 })
	sendCommand(t, url, fmt.Sprintf(`{"ticket_id": "SEC-7", "detection_id": %d, "status": "in_progress", "assignee": "alice"}`, id))
	await(t, "the version with the ticket, and the bridge's event about it", func() bool { n, _ := count(soc); return n >= 3 })

	sendCommand(t, url, fmt.Sprintf(`{"detection_id": %d, "note": "seen", "by": "ana"}`, id))
	sendCommand(t, url, fmt.Sprintf(`{"hide": {"detection_id": %d, "offender": "any", "victim": "any", "expiration": "1h"}, "by": "ana"}`, id))

	address := fmt.Sprintf("%s/#/detections/hq/%d", url, id)
	p := openTab(t, address)
	p.awaitText("#detection-title", d.Title)
	p.awaitText("#detection [data-part=about]", fmt.Sprintf("Detection %d of hq", id))
	p.awaitText("#detection [data-part=severity]", "high")
	p.awaitText("#detection [data-part=facts]", "Risk score 83")
	p.awaitText("#detection [data-part=facts]", "Ticket SEC-7")
	p.awaitText("#detection [data-part=searched]", "The journal keeps the versions that were recorded since")
	p.awaitText(".versions", "ticket id none → SEC-7") // the link and the status may be one version or two
	p.awaitText(".version:last-child", "soc: delivered")
	p.awaitText(".version:last-child", "few: filtered")
	p.awaitText(".version:first-child", "few: delivered")
	p.awaitText(".version:last-child", "lake: dead letter")
	p.awaitText(".version:last-child", "422")
	p.awaitText(".commands", "applied")
	p.awaitText(".commands", "for ticket SEC-7: status in_progress, assign to alice, link the detection")
	p.awaitText(".commands", "Command 2: add to the note, by ana")
	p.awaitText(".commands", "Command 3: hide the detection until ")
	p.await("the overview is hidden", "!"+element("#bridge")+".checkVisibility()")
	rules := loadAxe(t)
	for _, size := range []struct {
		name          string
		width, height int64
	}{{"desktop", 1280, 900}, {"phone", 360, 780}} {
		for _, scheme := range []string{"light", "dark"} {
			name := "detection-" + size.name + "-" + scheme
			p.prefer(scheme)
			p.resize(size.width, size.height)
			wide := eval[int](p, "document.documentElement.scrollWidth")
			assert.True(t, wide <= int(size.width), name, "the page", wide, "px wide")
			rules.check(p, name)
			p.picture(name, true)
		}
	}
	p.click(".version:last-child [data-part=view]")
	p.awaitText("#json", fmt.Sprintf(`"id": %d,`, id))
	p.press("\x1b")

	p.run("from the events and the dead letters", func(t *testing.T) {
		p.click("#detection a[href='#/']")
		p.awaitText("#verdict", "dead letter")
		p.click(fmt.Sprintf(`#events [aria-label="Detection %d of hq"]`, id))
		p.awaitText("#detection-title", d.Title)
		eval[bool](p, "history.back(), true")
		p.click(`[aria-label="View the dead letters of sink lake"]`)
		p.awaitText(".dead-group h3", "× rejected: POST to")
		p.awaitText(".dead-letter", d.Title)
		p.click(fmt.Sprintf(`#dead-letters [aria-label="Detection %d of hq"]`, id))
		p.awaitText("#detection-title", d.Title)
		p.await("the dialog is closed", "!document.querySelector('dialog[open]')")
	})
	p.run("one that nobody knows", func(t *testing.T) {
		p.expectRefusals()
		eval[bool](p, "location.hash = '#/detections/hq/7', true")
		p.awaitText("#detection [data-part=error]", "the bridge has not seen it at appliance hq")
	})
	assert.False(t, eval[bool](p, "'ran' in window"), "a script of the appliance has run")
}
