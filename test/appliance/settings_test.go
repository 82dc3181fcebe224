package appliance_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
)

func TestAConsoleChangesTheRulesOfSensors(t *testing.T) {
	const rules = `{"advanced_rules":[],"autofill_advanced":false,"autofill_standard":false,"standard_rules":[]}`
	_, console := serve(t, standin.Options{Console: true})
	console.want(422, "PUT", "/analysispriority/config/3", rules)
	console.want(204, "PATCH", "/analysispriority/3/manager", `{"manager":"console"}`)
	console.want(204, "PUT", "/analysispriority/config/3", rules)
	console.want(422, "PUT", "/analysispriority/config/6", rules)
	got := console.want(200, "GET", "/analysispriority/config/6", "").body
	assert.True(t, got != rules, "the sensors have the same rules")
	console.want(404, "GET", "/analysispriority/config/0", "")
}

func TestNoRecordIsStoredWhileIngestIsHalted(t *testing.T) {
	var at clock
	a, c := serve(t, standin.Options{Now: at.now})
	count := func(want int) {
		t.Helper()
		var found struct{ Total int }
		body := c.want(200, "POST", "/records/search", `{"from":"-1h"}`).body
		err := json.Unmarshal([]byte(body), &found)
		assert.True(t, err == nil && found.Total == want, "found", found.Total, "records, want", want, err)
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
	assert.True(t, strings.Contains(log, `as \"hq\"`) && strings.Contains(log, "9 bytes, SHA-256 ") && !strings.Contains(log, "abc"), "the audit log", log)
	oauth := &standin.OAuth{ClientID: "id", ClientSecret: "secret"}
	_, cloud := serve(t, standin.Options{OAuth: oauth, APIKey: standin.DefaultAPIKey})
	cloud.want(422, "POST", "/cloud/connect", `{"cloud_token":"abc","nickname":"hq"}`)
}
