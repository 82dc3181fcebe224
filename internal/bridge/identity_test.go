package bridge_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

const replacedLine = "another appliance seems to answer under this name"

// runUntilLooked runs a bridge until it has read the identity of an appliance.
func runUntilLooked(t *testing.T, yaml string, a *standin.Appliance) *running {
	t.Helper()
	before := a.Requests()["GET /service"]
	r := run(t, yaml)
	await(t, "a look at the appliance", func() bool {
		status, err := r.control(t).Status(t.Context())
		return err == nil && status.Appliances[0].Firmware != "" && a.Requests()["GET /service"] > before
	})
	return r
}

func replacedOf(t *testing.T, control *admin.Client) *admin.Replaced {
	t.Helper()
	status := require.Value(control.Status(t.Context()))(t)
	return status.Appliances[0].Replaced
}

func TestAnotherApplianceUnderTheSameNameIsReportedOnce(t *testing.T) {
	another := standin.Identity{Host: "sensor2.example", Address: "192.0.2.99"}
	for name, test := range map[string]struct {
		identity standin.Identity
		reason   string
	}{
		"with another name and address":        {another, "hostname was appliance.example and is sensor2.example, mgmt_ipaddr was"},
		"with the name and address of the old": {standin.Identity{}, "was created"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const known = 100
			first := standin.New(standin.Options{Seed: 1})
			first.AddMany(known)
			var front atomic.Pointer[standin.Appliance]
			front.Store(first)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { front.Load().ServeHTTP(w, r) }))
			t.Cleanup(server.Close)
			soc := startInbox(t)
			yaml := configuration(t, server.URL, webhookSink("soc", soc.URL))
			r := runUntilLooked(t, yaml, first)
			await(t, "the events of the first appliance", func() bool { return soc.count("") == known })
			r.stop()
			require.True(t, !r.log.hasLine(replacedLine), "the first one is reported", r.log)

			second := standin.New(standin.Options{Seed: 2})
			second.SetIdentity(test.identity)
			if test.identity == (standin.Identity{}) { // its ids alone give it away
				second.AddMany(known)
			}
			front.Store(second)
			r = run(t, yaml)
			await(t, "the report", func() bool { return r.log.hasLine("level=ERROR", replacedLine, test.reason) })
			replaced := replacedOf(t, r.control(t))
			assert.True(t, replaced != nil && strings.Contains(replaced.Reason, test.reason), "the status", replaced)
			second.AddMany(known)
			await(t, "all events of the second appliance that the first's ids could hide", func() bool { return missing(soc, second) == 0 })
			r.stop()
			assert.Equal(t, strings.Count(r.log.String(), replacedLine), 1, "reports")

			r = runUntilLooked(t, yaml, second)
			assert.True(t, replacedOf(t, r.control(t)) != nil, "the status has forgotten it at the next start")
			if r.stop(); r.log.hasLine(replacedLine) {
				t.Error("it is reported again at the next start")
			}

			state := openOffline(t, yaml)
			assert.True(t, replacedOf(t, state.Client) != nil, "the state does not have it without a bridge")
			require.NoError(t, admin.API.ForgetAppliance.Do(t.Context(), state.Client, admin.ForgetRequest{Appliance: "hq"}))
			require.NoError(t, state.Close())
			// Its data from before the replacement is no longer hidden.
			second.AddBacklog(known, 240*time.Hour)
			r = runUntilLooked(t, yaml, second)
			await(t, "all events of the second appliance", func() bool { return missing(soc, second) == 0 })
			replaced = replacedOf(t, r.control(t))
			assert.True(t, replaced == nil, "the status still", replaced)
			if r.stop(); r.log.hasLine(replacedLine) {
				t.Errorf("the replacement is reported again:\n%s", r.log)
			}
		})
	}
}

func TestADroppedReportKeepsTheStreamsPositions(t *testing.T) {
	t.Parallel()
	a, url := startAppliance(t, 20)
	soc := startInbox(t)
	yaml := configuration(t, url, webhookSink("soc", soc.URL))
	r := runUntilLooked(t, yaml, a)
	await(t, "the backlog", func() bool { return soc.count("") == 20 })
	r.stop()
	a.SetIdentity(standin.Identity{Host: "moved.example", Address: "192.0.2.77"})
	r = run(t, yaml)
	await(t, "the report", func() bool { return r.log.hasLine(replacedLine) })
	r.stop()
	state := openOffline(t, yaml)
	require.NoError(t, admin.API.ForgetAppliance.Do(t.Context(), state.Client, admin.ForgetRequest{Appliance: "hq", Identity: true}))
	require.NoError(t, state.Close())
	a.AddMany(1)
	r = runUntilLooked(t, yaml, a)
	await(t, "the new events", func() bool { return soc.count("") == 21 })
	replaced := replacedOf(t, r.control(t))
	assert.True(t, replaced == nil, "the status still", replaced)
	if r.stop(); r.log.hasLine(replacedLine) {
		t.Error("reported again")
	}
	soc.refuseDuplicates(t)
}

// missing counts the versions of an appliance that did not arrive.
func missing(soc *inbox, a *standin.Appliance) int {
	n, _ := soc.book().Missing("hq", history(a))
	return n
}
