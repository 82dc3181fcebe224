package format

import (
	"testing"

	"ndrbridge/transform"
)

// TestOCSFOfADetection checks what the schema does not: which values a detection has.
func TestOCSFOfADetection(t *testing.T) {
	c := ocsfEncoder(t)
	for _, test := range []struct {
		name    string
		members []string
		created bool
		want    map[string]string // JSON by path; "" if it must be absent
	}{
		{"new", []string{"status", `"new"`}, true, map[string]string{"activity_id": "1", "status_id": "1", "status_detail": ""}},
		{"open on first sight", []string{"status", "null"}, true, map[string]string{"activity_id": "1", "status_id": "1", "status": `"New"`}},
		{"open again", []string{"status", "null"}, false, map[string]string{"activity_id": "2", "status_id": "1", "type_uid": "200402"}},
		{"acknowledged", []string{"status", `"acknowledged"`, "resolution", "null"}, true, map[string]string{
			"activity_id": "2", "status_id": "2", "status": `"Acknowledged"`, "status_detail": `"acknowledged"`,
		}},
		{"in progress", []string{"status", `"in_progress"`, "resolution", "null"}, false, map[string]string{"activity_id": "2", "status_id": "2", "status_detail": ""}},
		{"closed", []string{"status", `"closed"`, "resolution", `"no_action_taken"`}, false, map[string]string{
			"activity_id": "3", "status_id": "4", "status": `"Resolved"`, "status_detail": `"no_action_taken"`, "verdict_id": "",
		}},
		{"closed without a resolution", []string{"status", `"closed"`, "resolution", "null"}, false, map[string]string{"activity_id": "3", "status_id": "4", "status_detail": ""}},
		{"another status", []string{"status", `"open"`, "resolution", "null"}, true, map[string]string{"activity_id": "2", "status_id": "99", "status": `"open"`}},
		{"without a risk score", []string{"risk_score", "null"}, true, map[string]string{"severity_id": "0", "risk_level_id": ""}},
		{"of low risk", []string{"risk_score", "30"}, true, map[string]string{"severity_id": "2", "risk_level_id": "1"}},
		{"of medium risk", []string{"risk_score", "79"}, true, map[string]string{"severity_id": "3", "risk_level_id": "2"}},
		{"of high risk", []string{"risk_score", "89"}, true, map[string]string{"severity_id": "4", "risk_level_id": "3"}},
		{"of critical risk", []string{"risk_score", "90"}, true, map[string]string{"severity_id": "5", "risk_level_id": "4", "risk_score": "90"}},
		{"of performance", []string{"risk_score", "90", "categories", `["perf"]`, "mitre_tactics", "[]", "mitre_techniques", "[]"}, true, map[string]string{
			"severity_id": "3", "finding_info.attacks": "", "finding_info.kill_chain": "",
		}},
		{"of a category that implies a tactic", []string{"categories", `["sec","sec.lateral"]`, "mitre_tactics", "[]", "mitre_techniques", "[]"}, true, map[string]string{
			"finding_info.kill_chain": `[{"phase_id":7,"phase":"Actions on Objectives"}]`,
			"finding_info.attacks":    `[{"tactic":{"uid":"TA0008","name":"Lateral Movement","src_url":"https://attack.mitre.org/tactics/TA0008"}}]`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events collector
			events.detection(test.name, with(detectionObject, test.members...), transform.Observation{Created: test.created})
			if events.err != nil {
				t.Fatal(events.err)
			}
			wantOCSF(t, c, events.kinds[0].event, test.want)
		})
	}
}

func TestOCSFOfAnAuditEntry(t *testing.T) {
	c := ocsfEncoder(t)
	for _, test := range []struct{ body, class, activity, status string }{
		{`{"operation":"Login failed","component":"Users"}`, "3002", "1", "2"},
		{`{"operation":"Log out"}`, "3002", "2", "0"},
		{`{"operation":"Add user"}`, "3001", "1", "0"},
		{`{"operation":"Add","component":"User"}`, "3001", "1", "0"},
		{`{"operation":"Modify e-mail address","component":"User"}`, "3001", "99", "0"},
		{`{"operation":"Disable account"}`, "3001", "5", "0"},
		{`{"operation":"Unlock user"}`, "3001", "12", "0"},
		{`{"operation":"Modify","component":"Trigger"}`, "6003", "3", "0"},
		{`{"operation":"Add","component":"Trigger"}`, "6003", "1", "0"},
		{`{}`, "6003", "0", "0"},
	} {
		var events collector
		events.audit(test.body, `{"id":7,"time":1773480413000,"body":`+test.body+`}`)
		if events.err != nil {
			t.Fatal(events.err)
		}
		t.Run(test.body, func(t *testing.T) {
			wantOCSF(t, c, events.kinds[0].event, map[string]string{"class_uid": test.class, "activity_id": test.activity, "status_id": test.status})
		})
	}
}

// wantOCSF compares values of an event's document.
func wantOCSF(t *testing.T, c *Encoder, e transform.Event, want map[string]string) {
	t.Helper()
	document := c.Encode(e).Payload()
	for path, value := range want {
		if got := string(lookup(document, path)); got != value {
			t.Errorf("%s is %s, want %s", path, got, value)
		}
	}
}
