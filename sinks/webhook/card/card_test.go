package card_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ndrbridge/sinks/webhook/card"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

var encoder = transform.Encoder{Appliance: "hq"}

var seen = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func detection(t require.T, fields string, s transform.Observation) transform.Event {
	d := require.Value(transform.ParseDetection([]byte(`{"id": 7, "mod_time": 1773480412000`+fields+`}`), false))(t)
	s.Recorded = seen
	e := require.Value(encoder.Detection(d, s))(t)
	return e
}

// value returns a fact of a card; empty for none.
func value(c card.Card, name string) string {
	for _, f := range c.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

func TestACardSummarizesADetection(t *testing.T) {
	const people = `, "participants": [{"role": "offender", "object_type": "device", "object_id": 5, "object_value": "192.0.2.5"},
		{"role": "victim", "object_value": "198.51.100.1", "hostname": "db1"}, {"role": "bystander", "object_value": "192.0.2.99"}]`
	before := func(fields string) []byte {
		d := require.Value(transform.ParseDetection([]byte(`{"id": 7, "mod_time": 1773480000000`+fields+`}`), false))(t)
		return d.Digested().Tracked
	}
	for _, test := range []struct {
		name, fields string
		sight        transform.Observation
		fact, want   string
	}{
		{"offender and victim", people, transform.Observation{}, "Offender → victim", "192.0.2.5 → db1 (198.51.100.1)"},
		{"a device by the name that it has at the appliance", people, transform.Observation{Added: transform.Enrichment{Devices: []byte(`[{"id":5,"display_name":"Printer"}]`)}},
			"Offender → victim", "Printer (192.0.2.5) → db1 (198.51.100.1)"},
		{"an offender alone", `, "participants": [{"role": "offender", "username": "ana"}]`, transform.Observation{}, "Offender", "ana"},
		{"a victim by its number alone", `, "participants": [{"role": "victim", "object_type": "device", "object_id": 5, "object_value": null}]`, transform.Observation{}, "Victim", "device 5"},
		{"a ticket that is a number", `, "ticket_id": 3041`, transform.Observation{}, "Ticket", "3041"},
		{"a ticket that is text", `, "ticket_id": "SEC-1"`, transform.Observation{}, "Ticket", "SEC-1"},
		{"the status with its resolution", `, "status": "closed", "resolution": "action_taken"`, transform.Observation{}, "Status", "closed, action_taken"},
		{"no status where there is none", `, "status": null`, transform.Observation{}, "Status", ""},
		{"tactics and techniques", `, "mitre_tactics": [{"id": "TA0007", "name": "Discovery"}], "mitre_techniques": [{"id": "T1046", "name": "Scan"}, {"id": "T1"}]`,
			transform.Observation{}, "ATT&CK", "TA0007 Discovery, T1046 Scan, T1"},
		{"six of many", `, "categories": ["a", "b", "c", "d", "e", "f", "g"]`, transform.Observation{}, "Categories", "a, b, c, d, e and 2 more"},
		{"from when to when", `, "start_time": 1773480000000, "end_time": 1773480060000`, transform.Observation{}, "Time", "2026-03-14 09:20:00 UTC to 2026-03-14 09:21:00 UTC"},
		{"since when", `, "start_time": 1773480000000.5`, transform.Observation{}, "Time", "2026-03-14 09:20:00 UTC"},
		{"its devices by their context", people, transform.Observation{Added: transform.Enrichment{Context: []byte(`{"devices":[{"id":5,"name":"Printer","on_watchlist":true}]}`)}},
			"Devices", "Printer (on the watchlist)"},
		{"what changed", `, "status": "closed", "risk_score": 70`, transform.Observation{Before: []byte(`{"risk_score":61,"assignee":"ana"}`)},
			"Changed", "status closed, assignee removed, risk score from 61 to 70"},
		{"who joined and who changed", people, transform.Observation{Before: before(`, "participants": [{"role": "offender", "object_value": "192.0.2.5"}, ` +
			`{"role": "bystander", "object_value": "192.0.2.99"}]`), Added: transform.Enrichment{Devices: []byte(`[{"id":5,"display_name":"Printer"}]`)}},
			"Changed", "2 participants joined: Printer, db1, 1 participant left"},
		{"who changed, by its id", `, "participants": [{"id": 1, "role": "victim", "object_value": "192.0.2.5"}, {"id": 2, "username": "ana"}]`,
			transform.Observation{Before: before(`, "participants": [{"id": 1, "role": "offender"}, {"id": 2, "username": "ana"}, {"id": 3}, {"id": 4}]`)},
			"Changed", "2 participants left, 1 participant changed: 192.0.2.5"},
		{"how many there are if who joined is not known", people, transform.Observation{Before: []byte(`{"participants":1,"list":2}`)}, "Changed", "participants from 1 to 3"},
		{"that nothing changed that anybody tracks", ``, transform.Observation{Before: []byte(`{}`)}, "Changed", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, value(card.Of(detection(t, test.fields, test.sight)), test.fact), test.want, test.fact)
		})
	}
}

func TestACardShowsAFollowUp(t *testing.T) {
	for _, test := range []struct{ name, kind, member, value, headline, facts string }{
		{"hidden by rules", "hidden", "visibility", `{"rules":[{"id":9007199254740993,"description":"Scanner\nof IT","author":"ana","expiration":1773480060000},{"id":7},{"id":8,"author":"bob"}],` +
			`"explanation":"no longer shown: hidden by a rule"}`,
			"No longer shown (hidden by a rule): A", "Rules: 9007199254740993 (Scanner of IT) of ana until 2026-03-14 09:21:00 UTC, 7, 8 of bob"},
		{"gone", "gone", "visibility", `{"rules":[],"explanation":"no longer shown: the appliance has no detection with this id"}`,
			"No longer shown (the appliance has no detection with this id): A", ""},
		{"shown", "shown", "visibility", `{"explanation":"shown again"}`, "Shown again: A", ""},
		{"shown, since it changed", "shown", "visibility", `{"explanation":"a newer version was read"}`, "Shown again: A", "Why: a newer version was read"},
		{"hidden for a long reason", "hidden", "visibility", `{"explanation":"no longer shown: ` + strings.Repeat("é", 81) + `"}`,
			"No longer shown: A", "Why: " + strings.Repeat("é", 81)},
		{"a long note", "noted", "note", `{"text":"` + strings.Repeat("é", 600) + `","author":"<!channel>"}`,
			"Note by <!channel>: A", "Text: " + strings.Repeat("é", 499) + "…"},
		{"a note without an author", "noted", "note", `{"text":"Isolate it."}`, "Note: A", "Text: Isolate it."},
		{"context", "context", "context", `{"devices":[{"id":1,"name":"db1","critical":true},{"id":2}]}`, "Critical 95: A", "Devices: db1 (critical); device 2"},
		{"evidence, of which three are shown", "evidence", "evidence", `{"total":7,"records":[{"_type":"~http","_source":{"clientAddr":{"type":"ipaddr4","value":"192.0.2.1"},"host":"h","statusCode":404}},` +
			`{"_type":"~flow","_source":{"senderAddr":"192.0.2.1","receiverAddr":"192.0.2.2"}},{"_type":"custom"},{"_type":"~dns"}]}`,
			"Evidence (4 of 7 records): A", "Record 1: http 192.0.2.1 h 404; Record 2: flow 192.0.2.1 → 192.0.2.2; Record 3: custom"},
		{"related detections", "evidence", "related", `[{"id":8,"title":"B"},{"id":9}]`, "Evidence (0 records): A", "Related: 8 B, 9"},
		{"a value of another type", "hidden", "visibility", `[7]`, "No longer shown: A", ""},
		{"a kind of a later release", "moved", "to", `"hq"`, "Critical 95: A", "What: moved"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := require.Value(encoder.FollowUp(transform.FollowUp{
				Kind: test.kind, Key: "1", At: seen, Recorded: seen, Name: test.member, Value: json.RawMessage(test.value),
				Detection: transform.Remembered(7, 0, 0, []byte(`{"status":"new","risk_score":95,"title":"A"}`)),
			}))(t)
			c := card.Of(e)
			assert.True(t, c.Headline() == test.headline && c.Level == transform.SeverityCritical && c.Status == "new", c.Headline(), c.Level, c.Status)
			assert.Equal(t, factsOf(c), strings.TrimPrefix(test.facts+"; Time: 2026-03-14 09:26:53 UTC", "; "))
		})
	}
}

func TestATitleSaysWhatAppliancesDoNoLongerShowOrRecord(t *testing.T) {
	blind := func(open bool, kind, object string) transform.Event {
		spot := transform.BlindSpot(kind, seen, time.Time{}, []byte(object))
		return require.Value(encoder.BlindSpot(open, kind, "7", spot, seen))(t)
	}
	rule := func(action, fields string) transform.Event {
		r := require.Value(transform.ParseRule([]byte(`{"id":7,"detection_type":"a"` + fields + `}`)))(t)
		return require.Value(encoder.Rule(transform.RuleChange{Action: action, Rule: r, Before: r}, seen))(t)
	}
	for want, e := range map[string]transform.Event{
		"Exclusion interval Patch day begins at hq: alerts are suppressed":            blind(true, transform.BlindInterval, `{"name":"Patch day"}`),
		"Exclusion interval Patch day is over at hq: alerts are no longer suppressed": blind(false, transform.BlindInterval, `{"name":"Patch day"}`),
		"Alert Disk is disabled at hq: it notifies nobody":                            blind(true, transform.BlindAlert, `{"name":"Disk"}`),
		"Alert Disk is no longer disabled at hq":                                      blind(false, transform.BlindAlert, `{"name":"Disk"}`),
		"Record ingest is halted at hq: no records are stored":                        blind(true, transform.BlindIngest, `{}`),
		"Ticket tracking is off at hq: neither tickets nor notes are written":         blind(true, transform.BlindTracking, `{}`),
		"Ticket tracking is on again at hq":                                           blind(false, transform.BlindTracking, `{}`),
		"Record ingest is no longer halted at hq: records are stored":                 blind(false, transform.BlindIngest, `{}`),
		"Blind spot opened: packet capture":                                           blind(true, "packet_capture", `{}`),
		"Tuning rule 7 of hq was added: it hides detections":                          rule("created", `,"enabled":true`),
		"Tuning rule 7 of hq was changed: it is disabled":                             rule("updated", `,"enabled":false`),
		"Tuning rule 7 of hq has expired: it no longer hides detections":              rule("expired", ``),
		"Tuning rule 7 of hq was removed: it no longer hides detections":              rule("removed", ``),
	} {
		assert.Equal(t, card.Of(e).Headline(), want)
	}
}

// factsOf returns the facts of a card as one text.
func factsOf(c card.Card) string {
	var facts []string
	for _, f := range c.Facts {
		facts = append(facts, f.Name+": "+f.Value)
	}
	return strings.Join(facts, "; ")
}

func TestTheHeadlineHasTheSeverityInWords(t *testing.T) {
	for fields, want := range map[string]string{
		`, "risk_score": 95, "title": "A"`:                            "Critical 95: A",
		`, "risk_score": 85, "title": "A"`:                            "High 85: A",
		`, "risk_score": 61, "title": "A"`:                            "Medium 61: A",
		`, "risk_score": 5, "title": "A"`:                             "Low 5: A",
		`, "risk_score": 0, "title": "A"`:                             "Unknown 0: A",
		`, "risk_score": 95, "title": "A", "categories": ["perf.db"]`: "Medium 95: A",
		`, "risk_score": null, "title": "A"`:                          "A",
		`, "risk_score": "<!channel>", "title": "A"`:                  "A",
		`, "title": " ", "type": "port_scan"`:                         "port_scan",
		`, "title": null`:                                             "Detection 7",
		`, "title": "A\u2028B\u202ecod.exe\u0000"`:                    "A Bcod.exe",
	} {
		assert.Equal(t, card.Of(detection(t, fields, transform.Observation{})).Headline(), want, fields)
	}
}

func TestLinksAreSafeForButtons(t *testing.T) {
	for text, want := range map[string]string{
		"https://sensor.example/#/detections/7?a=b": "https://sensor.example/#/detections/7?a=b",
		"http://sensor.example/":                    "http://sensor.example/",
		"https://sensor.example/a(b)|c>":            "https://sensor.example/a%28b%29%7Cc%3E",
		"javascript:alert(1)":                       "",
		"/relative":                                 "",
		"https://user:password@sensor.example/":     "",
		"https://" + strings.Repeat("a", 3000):      "",
	} {
		e := detection(t, "", transform.Observation{Added: transform.Enrichment{Link: text}})
		assert.Equal(t, card.Of(e).Link, want, text)
		assert.Equal(t, card.Of(detection(t, `, "url": "`+text+`"`, transform.Observation{})).Link, want, "url", text)
	}
}

func TestASummaryCountsDetectionsOnceAndNamesTheMostSevere(t *testing.T) {
	at := func(id, mod, score string) transform.Event {
		d, err := transform.ParseDetection([]byte(`{"id": `+id+`, "mod_time": `+mod+`, "risk_score": `+score+`, "title": "T`+id+`"}`), false)
		require.NoError(t, err)
		e := require.Value(encoder.Detection(d, transform.Observation{Recorded: seen}))(t)
		return e
	}
	followUp := func(id, kind string) transform.Event {
		d := require.Value(transform.ParseDetection([]byte(`{"id": `+id+`, "mod_time": 1773480000009, "risk_score": 99, "title": "T"}`), false))(t)
		return require.Value(encoder.FollowUp(transform.FollowUp{Kind: kind, Key: "1", Detection: d, Recorded: seen}))(t)
	}
	gap := require.Value(encoder.AuditGap(transform.AuditGap{Reason: transform.GapPurged}, seen))(t)
	c := card.Summary([]transform.Event{
		at("1", "1773480000001", "20"), at("2", "1773480000002", "99"), at("3", "1773480000003", "85"),
		at("2", "1773480000004", "61"), at("4", "1773480000005", "86"), gap, followUp("4", "hidden"), followUp("4", "noted"), followUp("9", "hidden"),
	})
	assert.Equal(t, c.Title, "4 detections in 9 events")
	assert.Equal(t, c.Level, transform.SeverityHigh)
	want := "Detections: 2 high, 1 medium, 1 low; From the bridge: Entries of the audit log of hq may be missing; Follow-ups: 2 hidden, 1 noted; " +
		"High 86: T4 (hq); High 85: T3 (hq); Medium 61: T2 (hq); Low 20: T1 (hq)"
	assert.Equal(t, factsOf(c), want)
	c = card.Summary([]transform.Event{followUp("9", "noted"), followUp("9", "noted"), gap})
	assert.Equal(t, c.Title, "3 events at once")
}
