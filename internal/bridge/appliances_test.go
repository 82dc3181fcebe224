package bridge_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/transform"
)

func TestAFailingApplianceIsReportedAndDelaysNoOther(t *testing.T) {
	const backlog = 300
	a, url := startAppliance(t, backlog)
	a.AddAudit(20)
	var well atomic.Bool
	branch := standin.New(standin.Options{Seed: 2})
	branch.AddBacklog(10, time.Hour)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !well.Load() {
			http.Error(w, "not now", http.StatusBadGateway)
			return
		}
		branch.ServeHTTP(w, r)
	}))
	t.Cleanup(other.Close)

	soc := startInbox(t)
	yaml := configuration(t, url, webhookSink("soc", soc.URL))
	yaml = strings.Replace(yaml, "sinks:", fmt.Sprintf(`    audit: {start: beginning, interval: 20ms}
  - name: branch
    url: %s
    api_key: %s
    rate_limit: 1000
    retry: {initial: 10ms, max: 20ms}
    detections: {start: beginning, interval: 20ms}
sinks:`, other.URL, standin.DefaultAPIKey), 1)
	run(t, yaml)
	// of counts the events of an appliance that are not the bridge's own.
	of := func(appliance string) (n int) {
		for _, e := range soc.Events() {
			if e.Appliance == appliance && e.Stream() != transform.StreamEvents {
				n++
			}
		}
		return n
	}
	// seen returns what the bridge's own events report.
	seen := func() (all []string) {
		for _, e := range soc.Events() {
			if e.Stream() == transform.StreamEvents {
				all = append(all, e.Action()+" "+e.Appliance)
			}
		}
		return all
	}
	await(t, "all events of the healthy appliance", func() bool { return of("hq") == backlog+20 })
	await(t, "the event about the other appliance", func() bool { return slices.Equal(seen(), []string{"unreachable branch"}) })
	well.Store(true)
	await(t, "all events of the other appliance", func() bool { return of("branch") == 10 })
	await(t, "the event that it is reachable again", func() bool {
		return slices.Equal(seen(), []string{"unreachable branch", "reachable branch"})
	})
}

func TestDetectionsAreEnrichedOnRequest(t *testing.T) {
	a, url := startAppliance(t, 5)
	soc := loopback.Receive(t)
	yaml := strings.Replace(configuration(t, url, webhookSink("soc", soc.URL)), "page_size: 200", "page_size: 200, enrich: [devices, format, link]", 1)
	run(t, yaml)
	await(t, "all detections", func() bool { return len(soc.Events()) == 5 })
	for _, e := range soc.Events() {
		for _, part := range []string{`"devices":[`, `"format":"`, `"link":"http`} {
			assert.Contains(t, string(e.Data()), part, "an event lacks")
		}
	}
	assert.Equal(t, a.Requests()["POST /devices/search"], 1, "requests for the devices of one page")
}
