package appliance_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
)

func TestSettings(t *testing.T) {
	const rules = `"advanced_rules":[{"type":"device_group","object_id":1,"description":"most"}],"autofill_advanced":false,"autofill_standard":true`
	const services = `{"admin_ui":{"enabled":true},"flow_collector":{"enabled":true},"key_receiver":{"enabled":false},"shell":{"enabled":false},"snmp":{"enabled":false}}`
	for name, test := range map[string]struct {
		path, before, method, body, after string
		wrong                             []string
	}{
		"services": {
			"/service/services", services, "PATCH", `{"snmp":{"enabled":true}}`, strings.Replace(services, `"snmp":{"enabled":false`, `"snmp":{"enabled":true`, 1),
			[]string{`{"mail":{"enabled":true}}`, `{"snmp":true}`, `{"snmp":{}}`},
		},
		"the cluster": {
			"/service/cluster", `{"ingest_enabled":true}`, "PATCH", `{"ingest_enabled":false}`, `{"ingest_enabled":false}`,
			[]string{`{}`, `{"ingest_enabled":null}`},
		},
		"the access to detections": {
			"/service/detections/access", `{"access":"privileged"}`, "PUT", `{"access":"all"}`, `{"access":"all"}`,
			[]string{`{}`, `{"access":"none"}`},
		},
		"the rules of a sensor": {
			"/analysispriority/config/0", `{"advanced_rules":[],"autofill_advanced":true,"autofill_standard":true,"standard_rules":[]}`,
			"PUT", `{` + rules + `,"standard_rules":[]}`, `{"advanced_rules":[{"description":"most","object_id":1,"type":"device_group"}],"autofill_advanced":false,"autofill_standard":true,"standard_rules":[]}`,
			[]string{`{` + rules + `}`, `{` + rules + `,"standard_rules":[{"type":"device_group","object_id":2}]}`, `{` + rules + `,"standard_rules":[{"type":"device","object_id":1}]}`},
		},
		"the manager of a sensor": {
			"/analysispriority/0/manager", `{"manager":"sensor"}`, "PATCH", `{"manager":"console"}`, `{"manager":"console"}`,
			[]string{`{}`, `{"manager":"me"}`},
		},
		"ticketing": {
			"/service/ticketing", `{"enabled":true}`, "PATCH", `{"enabled":false}`, `{"enabled":false}`,
			[]string{`{"enabled":"no"}`, `{"url":""}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, c := serve(t, standin.Options{})
			c.want(201, "POST", "/devicegroups", `{"name":"servers"}`)
			get := func(want string) {
				t.Helper()
				if got := c.want(200, "GET", test.path, "").body; got != want {
					t.Errorf("they are %s, want %s", got, want)
				}
			}
			get(test.before)
			for _, body := range test.wrong {
				c.want(400, test.method, test.path, body)
			}
			get(test.before)
			c.want(204, test.method, test.path, test.body)
			get(test.after)
			if log := a.AuditHistory(); strings.Contains(string(log[len(log)-1].JSON), test.path) {
				t.Errorf("the audit log does not have what changed: %s", log[len(log)-1].JSON)
			}
		})
	}
}

func TestTheManagerOfASensorChangesItsRules(t *testing.T) {
	const rules = `{"advanced_rules":[],"autofill_advanced":false,"autofill_standard":false,"standard_rules":[]}`
	_, sensor := serve(t, standin.Options{})
	sensor.want(204, "PUT", "/analysispriority/config/0", rules)
	sensor.want(204, "PATCH", "/analysispriority/0/manager", `{"manager":"console"}`)
	sensor.want(422, "PUT", "/analysispriority/config/0", rules)
	sensor.want(404, "GET", "/analysispriority/config/3", "")

	_, console := serve(t, standin.Options{Console: true})
	console.want(422, "PUT", "/analysispriority/config/3", rules)
	console.want(204, "PATCH", "/analysispriority/3/manager", `{"manager":"console"}`)
	console.want(204, "PUT", "/analysispriority/config/3", rules)
	console.want(422, "PUT", "/analysispriority/config/6", rules)
	if got := console.want(200, "GET", "/analysispriority/config/6", "").body; got == rules {
		t.Error("the sensors have the same rules")
	}
	console.want(404, "GET", "/analysispriority/config/0", "")
}

func TestAnalysisPrioritiesOfADeletedGroupAreGone(t *testing.T) {
	_, c := serve(t, standin.Options{})
	c.want(201, "POST", "/devicegroups", `{"name":"one"}`)
	c.want(201, "POST", "/devicegroups", `{"name":"two"}`)
	const path, rule = "/analysispriority/config/0", `{"object_id":%d,"type":"device_group"}`
	one, two := fmt.Sprintf(rule, 1), fmt.Sprintf(rule, 2)
	const rules = `{"advanced_rules":[%s],"autofill_advanced":true,"autofill_standard":true,"standard_rules":[%s]}`
	c.want(204, "PUT", path, fmt.Sprintf(rules, one+","+two, one))
	c.want(204, "DELETE", "/devicegroups/1", "")
	got := c.want(200, "GET", path, "").body
	if want := fmt.Sprintf(rules, two, ""); got != want {
		t.Errorf("the rules are %s, want %s", got, want)
	}
	c.want(204, "PUT", path, got)
}

func TestNoRecordIsStoredWhileIngestIsHalted(t *testing.T) {
	var at clock
	a, c := serve(t, standin.Options{Now: at.now})
	count := func(want int) {
		t.Helper()
		var found struct{ Total int }
		body := c.want(200, "POST", "/records/search", `{"from":"-1h"}`).body
		if err := json.Unmarshal([]byte(body), &found); err != nil || found.Total != want {
			t.Errorf("found %d records, want %d: %v", found.Total, want, err)
		}
	}
	add := func() {
		a.AddRecords(2)
		a.AddRecordsAt(1, epoch.UnixMicro())
		at.forward(time.Second)
	}
	add()
	c.want(204, "PATCH", "/service/cluster", `{"ingest_enabled":false}`)
	add()
	count(3)
	c.want(204, "PATCH", "/service/cluster", `{"ingest_enabled":true}`)
	add()
	count(6)

	_, third := serve(t, standin.Options{ThirdPartyRecords: true})
	third.want(422, "GET", "/service/cluster", "")
	third.want(422, "PATCH", "/service/cluster", `{"ingest_enabled":false}`)
}

func TestTheCloud(t *testing.T) {
	a, c := serve(t, standin.Options{})
	c.want(204, "POST", "/cloud/connect", `{"cloud_token":"abc.DEF","nickname":"hq"}`)
	c.want(400, "POST", "/cloud/connect", `{"cloud_token":"abc DEF","nickname":"hq"}`)
	c.want(400, "POST", "/cloud/connect", `{"cloud_token":"abc"}`)
	c.typed(octets, 204, "POST", "/service/cloudresources", "resources")
	var log string
	for _, entry := range a.AuditHistory() {
		log += string(entry.JSON)
	}
	if !strings.Contains(log, `as \"hq\"`) || !strings.Contains(log, "9 bytes, SHA-256 ") || strings.Contains(log, "abc") {
		t.Errorf("the audit log is %s", log)
	}
	oauth := &standin.OAuth{ClientID: "id", ClientSecret: "secret"}
	_, cloud := serve(t, standin.Options{OAuth: oauth, APIKey: standin.DefaultAPIKey})
	cloud.want(422, "POST", "/cloud/connect", `{"cloud_token":"abc","nickname":"hq"}`)
}

func TestDetectionsCanBeOpenToAll(t *testing.T) {
	a, c := serve(t, standin.Options{})
	a.AddMany(1)
	guest := c.user("guest", `{}`)
	guest.want(403, "POST", "/detections/search", `{}`)
	c.want(204, "PUT", "/service/detections/access", `{"access":"all"}`)
	id := guest.search(`{}`)[0]
	guest.want(403, "PATCH", fmt.Sprintf("/detections/%d", id), `{"status":"closed"}`)
	guest.want(403, "PUT", "/service/detections/access", `{"access":"all"}`)
	c.want(204, "PUT", "/service/detections/access", `{"access":"privileged"}`)
	guest.want(403, "GET", fmt.Sprintf("/detections/%d", id), "")
}
