//go:build e2e

package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/loopback"
)

// TestStatesArePictured takes pictures of a page in several states, at three widths in both colour
// schemes, and checks that none is wider than its window.
func TestStatesArePictured(t *testing.T) {
	a, applianceURL := startAppliance(t)
	a.AddBacklog(40, time.Hour)
	a.AddAudit(8)
	well := hq(applianceURL)
	sinks := webhook("soc", loopback.Receive(t).URL) + webhook("lake", loopback.Receive(t).URL)
	many := sinks
	for _, name := range []string{"chat", "archive", "mail", "tickets"} {
		many += webhook(name, loopback.Receive(t).URL)
	}
	refused, busy := loopback.Receive(t), loopback.Receive(t)
	refused.Answer(http.StatusUnauthorized)
	busy.Answer(http.StatusServiceUnavailable)
	away := `  - {name: branch, url: "http://127.0.0.1:9", api_key: stand-in-key, retry: {initial: 50ms, max: 200ms}}` + "\n"
	withoutOwner := func() *admin.Cluster {
		c := someCluster()
		c.Owner, c.WithoutOwnerSeconds = "", 90
		c.Members[0].State, c.Members[0].Ready = admin.MemberFollowing, false
		return c
	}
	active, activeURL := startAppliance(t)
	for range 160 { // more than the journal can hold
		active.AddHuge(256 << 10)
	}
	for _, c := range []struct {
		name     string
		settings settings
		shows    string
		cluster  func() *admin.Cluster
	}{
		{"healthy", settings{appliances: well, sinks: sinks}, allIsWell, nil},
		{"unreachable", settings{appliances: well + away, sinks: sinks}, "not reachable: connection refused", nil},
		{"failing", settings{appliances: well, sinks: webhook("siem", refused.URL) + webhook("queue", busy.URL) + sinks}, "key rejected (401)", nil},
		{"many-sinks", settings{appliances: well, sinks: webhook("siem", refused.URL) + many}, "key rejected (401)", nil},
		{"journal-full", settings{appliances: strings.Replace(hq(activeURL), "detections: {", "detections: {page_size: 8, ", 1),
			sinks: webhook("siem", refused.URL) + sinks, journal: "journal: {max_bytes: 16MiB}\n"}, "Journal full, polling is paused", nil},
		{"reminders", settings{appliances: well, sinks: many}, "reminder", nil},
		{"no-owner", settings{appliances: well, sinks: sinks}, "no member polls", withoutOwner},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, _ := startBridge(t, c.settings)
			url = withHistory(t, url)
			if c.cluster != nil {
				url = withCluster(t, url, c.cluster)
			}
			p := openTab(t, url)
			p.expectRefusals()
			if c.name == "reminders" {
				p.click(`[aria-label="Pause sink chat"]`)
			}
			p.awaitText("#verdict", c.shows)
			if c.cluster == nil {
				p.awaitText("#events", "hq")
				p.await("charts are drawn", element("#sinks .chart .line")+"?.getAttribute('d')")
			}
			for _, width := range []int64{1440, 900, 400} {
				for _, scheme := range []string{"light", "dark"} {
					p.prefer(scheme)
					p.resize(width, 900)
					if wide := eval[int](p, "document.documentElement.scrollWidth"); wide > int(width) {
						t.Errorf("at %d px, the page is %d px wide", width, wide)
					}
					p.picture(fmt.Sprintf("state-%s-%d-%s", c.name, width, scheme), width < 500)
				}
			}
		})
	}
}
