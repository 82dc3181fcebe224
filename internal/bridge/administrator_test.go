package bridge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// leap is a clock that goes on like the real one and can be put forward.
type leap struct{ ahead atomic.Int64 }

func (l *leap) now() time.Time          { return time.Now().Add(time.Duration(l.ahead.Load())) }
func (l *leap) forward(d time.Duration) { l.ahead.Add(int64(d)) }

// administrator administers a stand-in appliance over HTTP.
type administrator struct {
	t        *testing.T
	url, key string
	client   *http.Client
	changes  int // that the appliance made
}

var errUnreachable = errors.New("the appliance is unreachable")

// send sends a request and returns the location header and the body of a successful answer.
// It returns errUnreachable if there is no answer.
func (m *administrator) send(method, path, body string) (location string, answer []byte, err error) {
	m.t.Helper()
	r, err := http.NewRequestWithContext(m.t.Context(), method, m.url+"/api/v1"+path, strings.NewReader(body))
	require.NoError(m.t, err)
	r.Header.Set("Authorization", "Service apikey="+m.key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := m.client.Do(r)
	if err != nil {
		return "", nil, errUnreachable
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		return "", nil, errUnreachable
	}
	if resp.StatusCode/100 != 2 {
		return "", answer, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return resp.Header.Get("Location"), answer, nil
}

// change makes a change and returns its location header and body.
func (m *administrator) change(method, path, body string) (location string, answer []byte) {
	m.t.Helper()
	location, answer, err := m.send(method, path, body)
	require.NoError(m.t, err)
	m.changes++
	return location, answer
}

// create creates an object and returns its id.
func (m *administrator) create(collection, body string) string {
	m.t.Helper()
	location, _ := m.change(http.MethodPost, collection, body)
	return path.Base(location)
}

// object is an object of the appliance.
type object struct{ ID json.Number }

// get reads a value.
func (m *administrator) get(path string, into any) {
	m.t.Helper()
	m.read(http.MethodGet, path, "", into)
}

// read reads a value with a request that changes nothing.
func (m *administrator) read(method, path, body string, into any) {
	m.t.Helper()
	_, answer, err := m.send(method, path, body)
	if err == nil {
		err = json.Unmarshal(answer, into)
	}
	require.NoError(m.t, err)
}

// newKey creates a user and returns an API key of it.
func (m *administrator) newKey(user, roles string) string {
	m.t.Helper()
	m.change(http.MethodPost, "/users", fmt.Sprintf(`{"username": %q, "granted_roles": %s}`, user, roles))
	var generated struct{ Key string }
	_, answer := m.change(http.MethodPost, "/users/"+user+"/apikeys", `{"description": "for a test"}`)
	require.NoError(m.t, json.Unmarshal(answer, &generated))
	return generated.Key
}

// An administrator works on an appliance while a bridge reads it with a user of its own, who
// has only the privileges that it needs. The bridge delivers every change as an event, shows
// what concerns it, and loses nothing while the appliance restarts.
func TestABridgeBesideAnAdministrator(t *testing.T) {
	t.Parallel()
	var clock leap
	const restart, step = 10 * time.Minute, time.Minute
	a := standin.New(standin.Options{Seed: 1, Now: clock.now, RestartTime: restart, StepTime: step})
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	ana := &administrator{t: t, url: server.URL, key: standin.DefaultAPIKey, client: server.Client()}

	a.AddBacklog(20, time.Hour)
	soc := startInbox(t)
	key := ana.newKey("bridge", `{"ndr": "full"}`)
	r := run(t, fmt.Sprintf(`
state: %s
admin: {listen: "127.0.0.1:0"}
appliances:
  - name: hq
    url: %s
    api_key: %s
    rate_limit: 1000
    retry: {initial: 10ms, max: 50ms}
    detections: {start: beginning, interval: 20ms}
    audit: {start: beginning, interval: 20ms}
sinks:
%s`, filepath.Join(t.TempDir(), "state.db"), server.URL, key, webhookSink("soc", soc.URL)))
	awaitDelivered := func(what string) {
		t.Helper()
		await(t, what, func() bool { return undelivered(soc, a) == "" })
	}
	awaitDelivered("the backlog")
	r.appliance(t, "the firmware", func(s admin.ApplianceStatus) bool {
		return s.Reachable != nil && *s.Reachable && s.Firmware == "26.3.0.1234"
	})

	// Groups, a custom device, and an alert with an exclusion interval.
	servers := ana.create("/devicegroups", `{"name": "Servers", "filter": {"field": "role", "operator": "=", "operand": "file_server"}}`)
	team := ana.create("/emailgroups", `{"group_name": "SOC", "email_addresses": ["soc@example.com"], "system_notifications": true}`)
	ana.create("/customdevices", `{"name": "Branch office", "author": "ana", "disabled": false, "criteria": [{"ipaddr": "192.0.2.7"}]}`)
	var devices []object
	ana.read(http.MethodPost, "/devices/search", `{"filter": {"field": "name", "operator": "=", "operand": "Branch office"}}`, &devices)
	if len(devices) != 1 {
		t.Fatalf("%d devices have the name of the custom device", len(devices))
	}
	alert := ana.create("/alerts", `{"name": "Lateral movement", "type": "detection", "object_type": "device", "categories": ["sec.lateral"], "cc": [], "apply_all": false}`)
	interval := ana.create("/exclusionintervals", `{"name": "Backup", "interval_type": "daily", "start": 3600, "end": 7200, "alert_apply_all": false, "trend_apply_all": false}`)
	for children, id := range map[string]string{
		"devicegroups": servers, "devices": devices[0].ID.String(), "emailgroups": team, "exclusionintervals": interval,
	} {
		ana.change(http.MethodPost, "/alerts/"+alert+"/"+children, `{"assign": [`+id+`]}`)
		var assigned []object
		if ana.get("/alerts/"+alert+"/"+children, &assigned); len(assigned) != 1 || assigned[0].ID.String() != id {
			t.Errorf("%s of the alert: %v, want %s", children, assigned, id)
		}
	}

	// A detection that a rule hides is not delivered while the rule holds.
	known := a.Add(ofType(a, "hacking_tools"))[0]
	await(t, "a detection without a rule", func() bool { return versionsOf(soc, known.ID) == 1 })
	rule := ana.create("/detections/rules/hiding", `{"offender": "Any", "victim": "Any", "expiration": null, "detection_type": "hacking_tools"}`)
	hidden := a.Add(ofType(a, "hacking_tools"))[0]
	require.NoError(t, a.Update(func(d *standin.Detection) { d.Assignee = "ada" }, known.ID))
	shown := a.Add(ofType(a, "data_exfiltration"))[0]
	await(t, "a detection that the rule does not hide", func() bool { return versionsOf(soc, shown.ID) == 1 })
	if versionsOf(soc, hidden.ID) != 0 || versionsOf(soc, known.ID) != 1 {
		t.Errorf("%d versions of a hidden detection, %d of one that is hidden now", versionsOf(soc, hidden.ID), versionsOf(soc, known.ID))
	}
	ana.change(http.MethodDelete, "/detections/rules/hiding/"+rule, "")
	awaitDelivered("what the rule has hidden")

	// A key that may only read.
	reader := &administrator{t: t, url: server.URL, key: ana.newKey("reader", `{"ndr": "full", "npm": "full", "metrics": "full"}`), client: server.Client()}
	var alerts []object
	if reader.get("/alerts", &alerts); len(alerts) == 0 {
		t.Error("the reader sees no alerts")
	}
	if _, _, err := reader.send(http.MethodDelete, "/alerts/"+alert, ""); err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "write: full") {
		t.Errorf("a write with a key that may only read: %v", err)
	}

	// outage waits until the bridge reports the appliance, which is down, lets things happen, and
	// puts the clock forward to the end of the restart.
	outages := 0
	outage := func() {
		t.Helper()
		outages++
		r.appliance(t, "that the appliance is unreachable", func(s admin.ApplianceStatus) bool { return !*s.Reachable && s.Error != "" })
		await(t, "the event that it is unreachable", func() bool { return soc.count("io.ndrbridge.appliance.unreachable") == outages })
		if _, body := get(t, "http://"+r.AdminAddress()+"/metrics"); !strings.Contains(body, `ndrbridge_appliance_up{appliance="hq"} 0`) {
			t.Error("the metric does not show the outage")
		}
		a.AddMany(3)
		a.AddAudit(2)
		clock.forward(restart)
		r.appliance(t, "that the appliance is reachable again", func(s admin.ApplianceStatus) bool { return *s.Reachable && s.Error == "" })
		await(t, "the event that it is reachable again", func() bool { return soc.count("io.ndrbridge.appliance.reachable") == outages })
		if _, body := get(t, "http://"+r.AdminAddress()+"/metrics"); !strings.Contains(body, `ndrbridge_appliance_up{appliance="hq"} 1`) {
			t.Error("the metric does not show the recovery")
		}
		awaitDelivered("what happened during the outage")
	}

	// Other firmware, which is installed by a job that ends with a restart.
	var next []struct{ Versions []string }
	if ana.get("/service/firmware/next", &next); len(next) == 0 || len(next[0].Versions) == 0 {
		t.Fatal("no firmware to upgrade to")
	}
	version := next[0].Versions[0]
	location, _ := ana.change(http.MethodPost, "/service/firmware/download/version", fmt.Sprintf(`{"version": %q, "upgrade": true}`, version))
	job := "/jobs/" + path.Base(location)
	for {
		if _, _, err := ana.send(http.MethodGet, job, ""); errors.Is(err, errUnreachable) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		clock.forward(step / 2)
	}
	outage()
	r.appliance(t, "the firmware after the upgrade", func(s admin.ApplianceStatus) bool { return s.Firmware == version })
	var done struct{ Status string }
	if ana.get(job, &done); done.Status != "DONE" {
		t.Errorf("the job is %s", done.Status)
	}

	ana.change(http.MethodPost, "/service/restart", "")
	outage()
	r.appliance(t, "an appliance that is the same one", func(s admin.ApplianceStatus) bool { return s.Firmware == version && s.Replaced == nil })

	// Every change is an event, in order and once.
	r.stop()
	if what := undelivered(soc, a); what != "" {
		t.Error(what)
	}
	soc.refuseDuplicates(t)
	logged := 0
	for _, e := range a.AuditHistory() {
		if strings.Contains(string(e.JSON), `"user":"api"`) {
			logged++
		}
	}
	if want := ana.changes + 1; logged != want { // the end of the upgrade has an entry of its own
		t.Errorf("%d entries about the administrator in the audit log, want %d", logged, want)
	}
}

// ofType returns a generated detection of a type.
func ofType(a *standin.Appliance, kind string) standin.Detection {
	for {
		if d := a.Generate(); d.Type == kind {
			return d
		}
	}
}

// versionsOf counts the events about a detection.
func versionsOf(i *inbox, id int64) int {
	n := 0
	for _, e := range i.of("") {
		if e.Stream() == transform.StreamDetections && e.Subject == fmt.Sprint(id) {
			n++
		}
	}
	return n
}

// undelivered describes what has not arrived of an appliance's detections and audit entries: the
// last version of each detection, and each entry of the audit log in its order. It is empty if
// nothing is missing.
func undelivered(i *inbox, a *standin.Appliance) string {
	events := i.of("")
	book := ledger.New()
	book.Receive("soc", events...)
	if n, example := book.Missing("soc", history(a)); n > 0 {
		return fmt.Sprintf("the last versions of %d detections are missing, such as that of %d", n, example.ID)
	}
	var got, want []string
	for _, e := range events {
		if e.Stream() == transform.StreamAudit {
			got = append(got, e.Subject)
		}
	}
	for _, e := range a.AuditHistory() {
		want = append(want, fmt.Sprint(e.ID))
	}
	if !slices.Equal(got, want) {
		return fmt.Sprintf("the events of the audit log are %v, want %v", got, want)
	}
	return ""
}
