// Package presettest provides test helpers for presets: events of every kind, a server,
// and golden files.
package presettest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/fixture"
	"ndrbridge/transform"
)

// Named is an event and the name of its test case.
type Named struct {
	Name  string
	Event transform.Event
}

// seen is when the bridge recorded the events.
var seen = time.Date(2026, 3, 14, 9, 26, 53, 589e6, time.UTC)

var encoder = transform.Encoder{Appliance: "hq"}

// fataler is a test, or a check of package rapid.
type fataler interface{ Fatal(...any) }

// detectionEvent returns the event of a detection.
func detectionEvent(t fataler, object string, o transform.Observation) transform.Event {
	d, err := transform.ParseDetection([]byte(object), false)
	if err != nil {
		t.Fatal(err)
	}
	e, err := encoder.Detection(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Events returns events of every kind in the shapes that appliances send, complete and
// with fields missing.
func Events(t testing.TB) []Named {
	t.Helper()
	var all []Named
	add := func(name string, e transform.Event, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, Named{name, e})
	}
	detection := func(name, object string, s transform.Observation) {
		t.Helper()
		s.Recorded = seen
		add(name, detectionEvent(t, object, s), nil)
	}

	detection("detection-created", scan, transform.Observation{Created: true, Added: transform.Enrichment{
		Devices: []byte(`[{"id": 4711, "display_name": "Workstation of the front desk"}]`),
		Format:  "Port Scan", Link: "https://sensor.example/extra/#/detections/detail/25769804201",
	}})
	before, err := transform.ParseDetection([]byte(scan), false)
	if err != nil {
		t.Fatal(err)
	}
	closed := strings.NewReplacer(`"status": null`, `"status": "closed"`, `"resolution": null`, `"resolution": "action_taken"`,
		`"assignee": null`, `"assignee": "ana"`, `"mod_time": 1773480412000`, `"mod_time": 1773484012000`).Replace(scan)
	detection("detection-closed", closed, transform.Observation{Before: before.Digested().Tracked})
	detection("detection-in-progress", strings.Replace(closed, `"closed"`, `"in_progress"`, 1), transform.Observation{Before: before.Digested().Tracked})
	detection("detection-critical", critical, transform.Observation{Created: true})
	detection("detection-performance", performance, transform.Observation{Created: true})
	detection("detection-bare", `{"id": 7, "mod_time": 1773480500000}`, transform.Observation{Created: true})
	detection("detection-odd-types", odd, transform.Observation{})
	for _, kind := range slices.Sorted(maps.Keys(followUps)) {
		add("detection-"+kind, FollowUp(t, 25769804201, 1, kind), nil)
	}

	entry, err := transform.ParseAuditEntry([]byte(`{"id": 3301, "occur_time": 1773480000000, "time": 1773480000120,
		"body": {"operation": "Login", "user": "setup", "component": "Administration", "details": "from 192.0.2.14"}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	e, err := encoder.AuditEntry(entry, seen)
	add("audit", e, err)

	record := transform.ParseRecord([]byte(`{"_id": "AZq1", "_index": "records-2026-3-14", "_type": "~http", "sort": [1773480100123.25], "_source": {
		"clientAddr": {"type": "ipaddr4", "value": "192.0.2.14"}, "serverAddr": {"type": "ipaddr4", "value": "198.51.100.80"},
		"flowId": "0a1b2c", "host": "intranet.example", "method": "POST", "uri": "intranet.example/login", "statusCode": 302,
		"timestamp": 1773480100123.25}}`), false)
	e, err = encoder.Record("web", record, seen)
	add("record", e, err)

	e, err = encoder.Reachability(transform.Reachability{Since: seen.Add(-time.Minute), Failures: 3, Reason: "GET /api/v1/detections: connection refused"}, seen)
	add("unreachable", e, err)
	e, err = encoder.Reachability(transform.Reachability{Reachable: true, Since: seen.Add(-time.Minute), Failures: 9, For: time.Minute}, seen)
	add("reachable", e, err)
	e, err = encoder.AuditGap(transform.AuditGap{
		Reason: transform.GapPurged, Last: transform.AuditPosition{ID: 11, Time: 1773470000000}, First: transform.AuditPosition{ID: 42, Time: 1773480000000}, Missing: 30,
	}, seen)
	add("audit-gap", e, err)
	e, err = encoder.SinkSkipped(transform.Skipped{
		Sink: "soc", First: 5, Last: 1204, Events: 1200, Oldest: seen.Add(-8 * time.Hour), Newest: seen.Add(-6 * time.Hour), Reason: "they were older than 6h",
	}, seen)
	add("sink-skipped", e, err)
	halt := transform.SinkHalt{Sink: "lake", Since: seen.Add(-time.Minute), Reason: "POST https://lake.example: 401 Unauthorized"}
	e, err = encoder.SinkHalt(halt, seen)
	add("sink-halted", e, err)
	halt.Over, halt.Reason = true, ""
	e, err = encoder.SinkHalt(halt, seen)
	add("sink-resumed", e, err)
	for _, name := range []string{"rule.created", "rule.updated", "blindspot.opened", "blindspot.closed"} {
		e, err = fixture.Event(fixture.Spec{Name: name, Appliance: "hq"})
		add(strings.Replace(name, ".", "-", 1), e, err)
	}
	e, err = encoder.RulesRemoved([]string{"12", "9007199254740993"}, seen)
	add("rules-removed", e, err)
	e, err = encoder.Heartbeat("1.0.0", seen.Add(-time.Hour), seen)
	add("heartbeat", e, err)
	e, err = encoder.SinkTest("soc", seen)
	add("test", e, err)
	return all
}

// Titled returns the event of a detection in which every untrusted text is title.
func Titled(t fataler, title string) transform.Event {
	text := quote(title)
	object := `{"id": 8, "mod_time": 1773480500000, "risk_score": 61, "title": ` + text + `, "type": ` + text + `, "status": ` + text +
		`, "assignee": ` + text + `, "ticket_id": ` + text + `, "resolution": ` + text + `, "categories": [` + strings.Repeat(text+",", 6) + text +
		`], "participants": [{"role": "offender", "hostname": ` + text + `, "object_value": ` + text + `}, {"role": "victim", "hostname": ` + text +
		`}], "mitre_techniques": [{"id": ` + text + `, "name": ` + text + `}], "url": ` + text + `}`
	return detectionEvent(t, object, transform.Observation{Recorded: seen, Before: []byte(`{"title":"before"}`)})
}

// Version returns the event of a version of a detection that was modified and recorded
// at minute.
func Version(t fataler, id, minute int, status string) transform.Event {
	modified := seen.Add(time.Duration(minute) * time.Minute)
	object := strings.NewReplacer("25769804201", strconv.Itoa(id), `"status": null`, `"status": `+quote(status),
		`"mod_time": 1773480412000`, `"mod_time": `+strconv.FormatInt(modified.UnixMilli(), 10)).Replace(scan)
	return detectionEvent(t, object, transform.Observation{Recorded: modified, Created: minute == 0})
}

// followUps are what the kinds of follow-ups add to the data of an event.
var followUps = map[string]struct{ name, value string }{
	"hidden": {"visibility", `{"state": "hidden", "rules": [{"id": 12, "description": "Scanner of the *IT* team", "author": "ana", "expiration": 1774084812000}],
		"explanation": "no longer shown: hidden by rule 12"}`},
	"gone":  {"visibility", `{"state": "gone", "rules": [], "explanation": "no longer shown: the appliance has no detection with this id"}`},
	"shown": {"visibility", `{"state": "shown", "rules": [], "explanation": "a newer version was read"}`},
	"noted": {"note", `{"text": "Called the owner:\n<it> is a planned scan.", "author": "ana", "time": 1773480700000}`},
	"context": {"context", `{"devices": [{"id": 4711, "name": "Workstation of the front desk", "ipaddr": "192.0.2.14", "critical": false, "on_watchlist": true, "tags": ["Lobby"]},
		{"id": 12, "name": "db1", "role": "db_server", "critical": true, "on_watchlist": false}]}`},
	"evidence": {"evidence", `{"from": 1773480300000, "until": 1773480400000, "total": 2000, "truncated": true, "records": [
		{"_id": "AZq1", "_type": "~http", "_source": {"clientAddr": {"type": "ipaddr4", "value": "192.0.2.14"}, "serverAddr": {"type": "ipaddr4", "value": "198.51.100.80"}, "method": "POST", "host": "intranet.example", "statusCode": 302}},
		{"_id": "AZq2", "_type": "~flow", "_source": {"senderAddr": "192.0.2.14", "receiverAddr": "198.51.100.9", "proto": "TCP"}},
		{"_id": "AZq3", "_type": "~dns_request", "_source": {"clientAddr": "192.0.2.14", "qname": "db1.corp.example"}}, {"_id": "AZq4"}]}`},
}

// FollowUp returns an event of a kind that follows the versions of a detection, recorded at minute.
func FollowUp(t fataler, id, minute int, kind string) transform.Event {
	before, err := transform.ParseDetection([]byte(strings.NewReplacer("25769804201", strconv.Itoa(id)).Replace(scan)), false)
	if err != nil {
		t.Fatal(err)
	}
	at := seen.Add(time.Duration(minute) * time.Minute)
	e, err := encoder.FollowUp(transform.FollowUp{
		Kind: kind, Key: strconv.Itoa(minute), Detection: transform.Remembered(before.ID, before.ModTime, before.Created, before.Tracked), At: at,
		Name: followUps[kind].name, Value: json.RawMessage(followUps[kind].value), Recorded: at,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Burst returns n events, each of its own detection, except that every tenth is a later
// version of the one before.
func Burst(t fataler, n int) []transform.Event {
	events := make([]transform.Event, n)
	for i := range events {
		id := i
		if i%10 == 9 {
			id--
		}
		object := strings.NewReplacer("25769804201", fmt.Sprintf("2576980%04d", id), `"risk_score": 61`, `"risk_score": `+strconv.Itoa(i*7%100),
			"1773480412000", fmt.Sprintf("177348%04d000", i)).Replace(scan)
		events[i] = detectionEvent(t, object, transform.Observation{Recorded: seen, Created: i%10 != 9})
	}
	return events
}

// Only returns the events without their names.
func Only(named []Named) []transform.Event {
	events := make([]transform.Event, len(named))
	for i, n := range named {
		events[i] = n.Event
	}
	return events
}

// Hostile are texts that contain markup of the services.
var Hostile = []string{
	"<!channel> <!here> <!everyone> <@U012AB3CD> <#C012AB3CD> <!subteam^S012AB3CD>",
	"<https://evil.example|Sign in> and https://evil.example/ and mailto:a@evil.example",
	"@everyone @here <@80351110224678912> <@&165511591545143296> <#103735883630395392> <:a:1> <t:1618953630:R>",
	"[Sign in](https://evil.example) ![x](https://evil.example/x.png) [x]: https://evil.example",
	"*bold* _it_ ~s~ `code` ```block``` ||spoiler|| > quote\n> quote\n# heading\n- list\n1. list\n-# small",
	"<at>Everyone</at> {{DATE(2017-02-14T06:08:39Z,SHORT)}} ${secret} <script>alert(1)</script> &lt;!channel&gt; &amp;",
	"\u202egnp.exe \u2066\u200b\ufeff\u2028line\u2029para\x00\x07\x7f\u0085 \\u003c \\",
	strings.Repeat("&", 1000), strings.Repeat("😀", 1000), strings.Repeat("漢", 1000), strings.Repeat("{", 1000), strings.Repeat("\\\"", 1000),
	"", " ", "\n", ":warning:",
}

func quote(text string) string {
	b, _ := json.Marshal(text) // a string cannot fail
	return string(b)
}
