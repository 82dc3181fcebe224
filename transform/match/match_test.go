package match

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/internal/fixture"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// detectionEvent is the event of an appliance's first sight of a detection.
func detectionEvent(t testing.TB, object string) transform.Event {
	t.Helper()
	return event(t, transform.Attributes{
		ID: "25769804127-1750935535971", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created",
		Subject: "25769804127", PartitionKey: "25769804127", Appliance: "hq",
		Time: time.UnixMilli(1750935535971), SeverityNumber: 17, SeverityText: "high",
	}, `{"detection":`+object+`}`)
}

func event(t testing.TB, a transform.Attributes, data string) transform.Event {
	t.Helper()
	e := require.Value(transform.New(a, []byte(data)))(t)
	return e
}

func auditEvent(t testing.TB) transform.Event {
	return event(t, transform.Attributes{ID: "7-8", Source: "ndrbridge://hq/audit", Type: "io.ndrbridge.audit.logged", Subject: "7", Appliance: "hq"},
		`{"audit":{"id":7,"body":{"operation":"Login","user":"setup"}}}`)
}

func recordEvent(t testing.TB) transform.Event {
	return event(t, transform.Attributes{ID: "a-b", Source: "ndrbridge://hq/records/web", Type: "io.ndrbridge.record.stored", Subject: "~http", Appliance: "hq"},
		`{"record":{"_id":"b","_type":"~http","_source":{"statusCode":404,"processingTime":233.318,"ex":{"isSuspicious":true},"timestamp":1569284181528.201}}}`)
}

func gapEvent(t testing.TB) transform.Event {
	return event(t, transform.Attributes{ID: "audit.gap-1", Source: "ndrbridge://hq/events", Type: "io.ndrbridge.audit.gap", Appliance: "hq"},
		`{"gap":{"reason":"purged"}}`)
}

func updatedEvent(t testing.TB) transform.Event {
	return event(t, transform.Attributes{ID: "1-2", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated", Subject: "1", Appliance: "hq", Redelivered: true},
		`{"detection":{"id":1,"status":"closed","risk_score":40},"changes":{"status":{"from":"new","to":"closed"}}}`)
}

// tunnel has what real detections have: nulls, big integers, links, lists.
const tunnel = `{
	"id": 25769803828, "big": 9007199254740993, "huge": 18446744073709551615, "fraction": 61.5, "whole": 61.0, "far": 1e400,
	"title": "ICMP \"Tunnel\" \u00fc\ud83d\ude00", "description": "[a](https://x.example#/m?from=1&until=2) sent {unusual} [payloads]",
	"risk_score": 61, "type": "icmp_tunnel", "recommended": true, "is_user_created": false,
	"categories": ["sec", "sec.command", "sec.attack"],
	"properties": {"certificate": "dc1:RSA", "odd\u0020name": 1, "client": {"type": "ipaddr", "value": ["192.0.2.1"]}},
	"participants": [
		{"role": "offender", "external": true, "object_value": "203.0.113.7", "username": null, "id": 7189},
		{"role": "victim", "external": false, "object_value": "203.0.113.142", "hostname": "db.corp.example", "id": 7167}
	],
	"ticket_id": "2996", "assignee": null, "status": null, "mitre_tactics": [], "end_time": 1739982300000
}`

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		name, expression string
		want             bool
	}{
		{"an attribute is compared", `event.type == "io.ndrbridge.detection.created"`, true},
		{"an attribute's start is compared", `event.type.startsWith("io.ndrbridge.audit")`, false},
		{"the stream is an attribute", `event.stream == "detections"`, true},
		{"the action is an attribute", `event.action == "created"`, true},
		{"the appliance is an attribute", `event.appliance in ["hq", "lab"]`, true},
		{"the severity is a number", `event.severitynumber >= 17 && event.severitytext == "high"`, true},
		{"the time is a timestamp", `event.time > timestamp("2025-01-01T00:00:00Z") && event.time.getFullYear() == 2025`, true},
		{"an attribute that the event has is there", `has(event.subject)`, true},
		{"an attribute that the event does not have is not there", `has(event.unenriched)`, false},
		{"an absent attribute does not match", `event.unenriched != "devices"`, false},
		{"a mark that is not set is false", `!event.redelivered && !event.repaired`, true},

		{"a number is at least another", `detection.risk_score >= 61`, true},
		{"a number is compared with a fraction", `detection.risk_score > 60.5 && detection.risk_score < 61.5`, true},
		{"a fraction is compared with an integer", `detection.fraction > 61 && detection.fraction < 62`, true},
		{"a fraction without one equals an integer", `detection.whole == 61`, true},
		{"an integer beyond 2^53 is exact", `detection.big == 9007199254740993 && detection.big != 9007199254740992`, true},
		{"an integer beyond 2^53 is ordered exactly", `detection.big > 9007199254740992 && detection.big < 9007199254740994`, true},
		{"an integer beyond 2^63 is unsigned", `detection.huge == 18446744073709551615u && detection.huge > 9223372036854775807`, true},
		{"a number beyond a double is above all others", `detection.far > 1.7e308`, true},
		{"a timestamp is an integer", `detection.end_time == 1739982300000`, true},
		{"a text with escapes is unescaped", `detection.title == "ICMP \"Tunnel\" ü😀"`, true},
		{"a text that holds brackets is one value", `detection.description.contains("{unusual} [payloads]")`, true},
		{"a pattern is searched", `detection.title.matches("(?i)tunnel")`, true},
		{"a boolean stands alone", `detection.recommended`, true},
		{"a boolean is negated", `!detection.is_user_created`, true},
		{"a number never equals a text", `detection.ticket_id == 2996`, false},
		{"a field of an object is found", `detection.properties.certificate == "dc1:RSA"`, true},
		{"a field is named in brackets, and escaped in the event", `detection.properties["odd name"] == 1`, true},
		{"a choice takes one of its sides", `(detection.recommended ? detection.risk_score : 0) > 60`, true},

		{"an absent field is not at least a number", `detection.nothing >= 80`, false},
		{"an absent field is not below a number either", `detection.nothing < 80`, false},
		{"the negation of an absent field does not match", `!(detection.nothing < 80)`, false},
		{"an absent field equals nothing", `detection.nothing == null`, false},
		{"an absent field is unequal to nothing", `detection.nothing != "closed"`, false},
		{"an absent field in an absent object does not match", `detection.nothing.at.all == 1`, false},
		{"an absent field beside and does not match", `detection.recommended && detection.nothing > 1`, false},
		{"the other side of or decides", `detection.nothing > 1 || detection.recommended`, true},
		{"the other side of or decides, whichever comes first", `detection.recommended || detection.nothing > 1`, true},
		{"false and an absent field is false, and its negation true", `!(detection.is_user_created && detection.nothing > 1)`, true},
		{"an absent condition chooses nothing", `detection.nothing ? true : true`, false},
		{"has guards an absent field", `!has(detection.nothing) || detection.nothing > 1`, true},
		{"has finds a field", `has(detection.risk_score)`, true},
		{"has misses a field", `has(detection.nothing)`, false},
		{"has within an absent object does not match", `!has(detection.nothing.below)`, false},
		{"has within a value that is not an object misses", `!has(detection.title.below)`, true},
		{"what selects from an absent field does not match", `detection.nothing[0].role == "offender"`, false},
		{"an index behind the end of a list does not match", `detection.participants[5].role == "offender"`, false},

		{"null equals null", `detection.assignee == null`, true},
		{"null is unequal to a text", `detection.status != "closed"`, true},
		{"null is there", `has(detection.assignee)`, true},
		{"null has no start", `detection.assignee.startsWith("a")`, false},
		{"null has no start that a negation could deny", `!detection.assignee.startsWith("a")`, false},
		{"null is not above a number", `detection.assignee > 1 || detection.assignee <= 1`, false},
		{"null is none of a list", `detection.status in ["closed", "new"]`, false},
		{"null holds nothing", `"a" in detection.assignee || !("a" in detection.assignee)`, false},
		{"null has no elements", `detection.assignee.exists(a, true) || detection.assignee.all(a, true)`, false},
		{"null has no fields", `detection.assignee.name == "ana"`, false},
		{"null alone is not true", `detection.assignee`, false},

		{"a list holds a text", `"sec.attack" in detection.categories`, true},
		{"a list does not hold a text", `!("perf" in detection.categories)`, true},
		{"a list has a length", `size(detection.categories) == 3 && detection.mitre_tactics.size() == 0`, true},
		{"a list equals another", `detection.categories == ["sec", "sec.command", "sec.attack"]`, true},
		{"an object equals another", `{"type": "ipaddr", "value": ["192.0.2.1"]} == detection.properties.client`, true},
		{"an element is found by its field", `detection.participants.exists(p, p.role == "offender" && p.external)`, true},
		{"all elements are asked", `detection.participants.all(p, p.object_value.startsWith("203."))`, true},
		{"an element without the field does not match", `detection.participants.exists(p, p.hostname == "other")`, false},
		{"an element without the field leaves all undecided", `detection.participants.all(p, p.hostname.endsWith(".example"))`, false},
		{"has guards a field of an element", `detection.participants.all(p, !has(p.hostname) || p.hostname.endsWith(".example"))`, true},
		{"null in an element has no start", `detection.participants.exists(p, p.username.startsWith("a"))`, false},
		{"an element is chosen by its index", `detection.participants[1].hostname == "db.corp.example"`, true},
		{"text elements are asked", `detection.categories.exists(c, c.startsWith("sec."))`, true},
		{"a variable of a loop hides one of the event", `detection.participants.exists(detection, detection.role == "victim")`, true},
		{"an object's names are asked", `detection.properties.exists(name, name == "certificate")`, true},
		{"two lists are crossed", `detection.participants.exists(p, detection.participants.exists(q, p.id > q.id))`, true},
		{"a loop reads the fields outside it", `detection.categories.exists(c, c == "sec" && detection.risk_score == 61)`, true},
		{"a whole object can be asked for a name", `"risk_score" in detection && size(detection) > 10`, true},
		{"a name can be computed", `detection.properties[detection.type] == 1`, false},
		{"a field is used alone and below", `has(detection.properties) && has(detection.properties.client) && detection.properties.client.type == "ipaddr"`, true},

		{"an audit variable does not match a detection", `audit.body.operation != "Login"`, false},
		{"nor does the negation", `!(audit.body.operation == "Login")`, false},
		{"nor does the lack of a field of it", `!has(audit.body)`, false},
		{"changes are absent at the first sight", `has(changes.status) || !has(changes.status)`, false},
		{"another stream beside or leaves the decision to the other side", `audit.body.operation == "Login" || detection.risk_score > 60`, true},
	} {
		t.Run(test.name, func(t *testing.T) { matches(t, test.expression, detectionEvent(t, tunnel), test.want) })
	}
}

func TestANumberWrittenAsATextIsANumber(t *testing.T) {
	detection := detectionEvent(t, `{"id": "25769804127", "risk_score": "95", "end_time": "1739982300000.5", "title": "95", "properties": {"id": "7"}, "new": "7",
		"participants": [{"id": "7189", "object_id": "12", "username": "12"}]}`)
	for expression, want := range map[string]bool{
		`detection.risk_score >= 60`:                                            true,
		`!(detection.risk_score < 95) && detection.risk_score == 95.0`:          true,
		`detection.id == 25769804127 && detection.end_time > 1739982300000`:     true,
		`detection.participants.exists(p, p.id == 7189 && p.object_id == 12)`:   true,
		`detection.participants[0].object_id < 13`:                              true,
		`detection.exists(name, name == "risk_score" && detection[name] == 95)`: true,
		`detection.title == "95" && detection.participants[0].username == "12"`: true, // texts are documented
		`detection.properties.id == "7" && detection["new"] == "7"`:             true, // nothing is documented
	} {
		matches(t, expression, detection, want)
	}
	changes, err := transform.New(transform.Attributes{ID: "1-2", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated"},
		[]byte(`{"detection":{},"changes":{"risk_score":{"from":"61","to":"95"},"participants":{"from":1,"to":2,"added":[{"id":"7","role":"victim"}]}}}`))
	require.NoError(t, err)
	matches(t, `changes.participants.to > 1 && changes.participants.added.exists(p, p.role == "victim" && p.id == 7) && !has(changes.participants.removed)`, changes, true)
	matches(t, `changes.risk_score.to > changes.risk_score.from && changes.risk_score.to == 95`, changes, true)
}

func TestAStoredEventOfAnEarlierVersionMatchesByTheSeveritiesOfToday(t *testing.T) {
	stored := event(t, transform.Attributes{ID: "1-2", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated",
		SeverityNumber: 21, SeverityText: "FATAL"}, `{"detection":{"risk_score":95}}`)
	matches(t, `event.severitytext in ["high", "critical"]`, stored, true)
}

func TestMatchesOtherStreams(t *testing.T) {
	audit, record, gap, updated := auditEvent(t), recordEvent(t), gapEvent(t), updatedEvent(t)
	for _, test := range []struct {
		name, expression string
		event            transform.Event
		want             bool
	}{
		{"an audit entry's body is read", `audit.body.operation == "Login"`, audit, true},
		{"what is said of a detection does not match an audit entry", `detection.risk_score >= 0`, audit, false},
		{"nor does what is denied of it", `!(detection.risk_score >= 80)`, audit, false},
		{"nor does a field that it lacks", `!has(detection.end_time)`, audit, false},
		{"audit entries beside detections are asked for by their stream", `event.stream == "audit" || detection.risk_score >= 80`, audit, true},
		{"a record's source is read", `record._source.statusCode >= 400 && record._source.ex.isSuspicious`, record, true},
		{"a record's fractions are compared", `record._source.processingTime > 233 && record._source.timestamp > 1569284181528`, record, true},
		{"a record's query is part of the source", `event.stream == "records" && event.source.endsWith("/web")`, record, true},
		{"what is said of a detection does not match a record", `detection.type != "x"`, record, false},
		{"the bridge's own events match by their type", `event.type.endsWith(".audit.gap")`, gap, true},
		{"what is said of an audit entry does not match the bridge's own events", `audit.id != 1`, gap, false},
		{"a change is read", `changes.status.to == "closed"`, updated, true},
		{"a change is asked for", `has(changes.status) && !has(changes.assignee)`, updated, true},
		{"the changes are counted", `size(changes) == 1 && "status" in changes`, updated, true},
		{"a change that was not made does not match", `changes.assignee.to == "ana"`, updated, false},
		{"a mark that is set is true", `event.redelivered`, updated, true},
	} {
		t.Run(test.name, func(t *testing.T) { matches(t, test.expression, test.event, test.want) })
	}
}

func matches(t *testing.T, expression string, e transform.Event, want bool) {
	t.Helper()
	m := require.Value(compile(expression))(t)
	require.Equal(t, require.Value(m.Matches(e))(t), want, expression, "gives")
}

func TestAnEvaluationErrorMatches(t *testing.T) {
	for _, test := range []struct{ name, expression, want string }{
		{"a text is compared with a number", `detection.title > 5`, `column 17, at "> 5": no such overload`},
		{"a number is asked for its start", `detection.risk_score.startsWith("6")`, "no such overload"},
		{"a list is asked for a field", `detection.participants.role == "offender"`, `column 23, at ".role == \"offender\"": a list has no fields`},
		{"a list is asked for a field's field", `detection.participants.role.name == "offender"`, "a list has no fields"},
		{"a text stands where true or false should", `detection.title`, "not true or false"},
		{"a text stands beside and", `detection.recommended && detection.title`, "no such overload"},
		{"a list is asked by a name within a loop", `detection.participants.exists(p, detection.categories[p.role] == "x")`, "unsupported index"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := compile(test.expression)
			require.NoError(t, err)
			wanted, err := m.Matches(detectionEvent(t, tunnel))
			if !wanted || err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "25769804127-1750935535971") {
				t.Fatalf("%v, %v; want true, and an error with the event's id and %q", wanted, err, test.want)
			}
		})
	}
	t.Run("a loop that costs too much is stopped", func(t *testing.T) {
		m, err := compile(`detection.participants.exists(p, detection.participants.exists(q, p.id == -q.id))`)
		require.NoError(t, err)
		var participants []string
		for i := range 2000 {
			participants = append(participants, `{"id":`+strconv.Itoa(i+1)+`}`)
		}
		crowd := detectionEvent(t, `{"participants":[`+strings.Join(participants, ",")+`]}`)
		if wanted, err := m.Matches(crowd); !wanted || err == nil || !strings.Contains(err.Error(), "too long for this event") {
			t.Fatalf("%v, %v", wanted, err)
		}
		require.True(t, require.Value(m.Matches(detectionEvent(t, `{"participants":[{"id":1},{"id":-1}]}`)))(t), "the next event")
	})
}

func TestAnEvaluationThatTakesTooLongMatches(t *testing.T) {
	numbers := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]"
	}
	text := `"` + strings.Repeat("ab", 32<<10) + `"`
	for _, test := range []struct{ name, expression, data string }{
		{"a long text is matched for each element", `detection.l.exists(x, detection.s.matches("(a|b)*c$"))`, `{"l":` + numbers(1000) + `,"s":` + text + `}`},
		{"a long text is matched again and again without a loop", `detection.s.matches("(a|b)*c$")` + strings.Repeat(` || detection.s.matches("(a|b)*c$")`, 9), `{"s":` + text + `}`},
		{"a long text is searched for each element", `detection.l.exists(x, detection.s.contains("bb"))`, `{"l":` + numbers(1000) + `,"s":` + text + `}`},
		{"a long list is compared for each of its elements", `detection.l.all(x, detection.l == detection.l)`, `{"l":` + numbers(8000) + `}`},
		{"a long list within a list is compared for each element", `detection.l[0].all(x, detection.l == detection.l)`, `{"l":[` + numbers(8000) + `]}`},
		{"each element is looked for in a long list", `detection.l.all(x, x in detection.l)`, `{"l":` + numbers(8000) + `}`},
		{"lists that loops made of long lists are compared", `detection.l.map(x, detection.l) == detection.l.map(x, detection.l)`, `{"l":` + numbers(8000) + `}`},
		{"texts grow in a loop", `detection.l.map(x, detection.s + detection.s) == []`, `{"l":` + numbers(8000) + `,"s":` + text + `}`},
		{"a pattern is compiled for each element", `detection.l.exists(x, "a".matches(detection.p))`, `{"l":` + numbers(8000) + `,"p":"` + strings.Repeat("(b|c)", 50) + `"}`},
		{"a time zone is looked up for each element", `detection.l.exists(x, event.time.getHours("Europe/Berlin") == 25)`, `{"l":` + numbers(8000) + `}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := require.Value(compile(test.expression))(t)
			if wanted, err := m.Matches(detectionEvent(t, test.data)); !wanted || err == nil || !strings.Contains(err.Error(), "too long for this event") {
				t.Fatalf("%v, %v", wanted, err)
			}
		})
	}
	t.Run("what rules are made of is far from the limit", func(t *testing.T) {
		var participants []string
		for i := range 300 {
			participants = append(participants, `{"hostname":"host-`+strconv.Itoa(i)+`.corp.example","tags":["a","b"]}`)
		}
		crowd := detectionEvent(t, `{"description":`+text+`,"participants":[`+strings.Join(participants, ",")+`]}`)
		matches(t, `!detection.participants.exists(p, p.hostname.matches("^dc[0-9]+\\.") || p.hostname == "a" || "c" in p.tags || p.hostname.contains("admin"))`, crowd, true)
		matches(t, `detection.description.matches("c$") || detection.description.contains("c")`, crowd, false)
	})
}

func TestTheLastOfDuplicateFieldsCounts(t *testing.T) {
	matches(t, `detection.risk_score == 90`, detectionEvent(t, `{"risk_score":10,"risk_score":90}`), true)
	matches(t, `detection.properties.a == 1`, detectionEvent(t, `{"properties":{"a":1},"properties":{"b":1}}`), false)
	matches(t, `detection.properties.exists(n, detection.properties[n] == 2)`, detectionEvent(t, `{"properties":{"a":1,"a":2}}`), true)
}

func TestAMatchIsSafeForConcurrentUse(t *testing.T) {
	m, err := compile(`detection.risk_score >= 60 && detection.participants.exists(p, p.role == "offender")`)
	require.NoError(t, err)
	var done sync.WaitGroup
	for _, want := range []bool{true, false, true, false} {
		score := map[bool]string{true: "61", false: "59"}[want]
		e := detectionEvent(t, `{"risk_score":`+score+`,"participants":[{"role":"offender"}]}`)
		done.Go(func() {
			for range 500 {
				if got, err := m.Matches(e); got != want || err != nil {
					t.Errorf("%v, %v; want %v", got, err, want)
					return
				}
			}
		})
	}
	done.Wait()
}

func TestWhyNamesTheFirstPartThatIsNotTrue(t *testing.T) {
	detection, audit := detectionEvent(t, tunnel), auditEvent(t)
	for _, test := range []struct {
		name, expression string
		event            transform.Event
		want             string
	}{
		{"an event that matches has no reason", `detection.risk_score >= 60 && detection.recommended`, detection, ""},
		{"the only part", `detection.risk_score >= 80`, detection, "detection.risk_score >= 80"},
		{"the first of two", `event.stream == "detections" && detection.risk_score >= 80 && detection.status == "new"`, detection, "detection.risk_score >= 80"},
		{"a part in brackets", `detection.recommended && (detection.recommended && detection.status == "new")`, detection, `detection.status == "new"`},
		{"or is one part", `(detection.risk_score >= 80 || detection.type == "x") && detection.is_user_created`, detection, `detection.risk_score >= 80 || detection.type == "x"`},
		{"a missing field", `detection.risk_score >= 80`, audit, "detection.risk_score >= 80"},
		{"a part that fails before one that is false", `detection["title"] > 5 && detection.risk_score >= 80`, detection, "detection.risk_score >= 80"},
		{"a loop is one part", `detection.participants.exists(p, p.role == "x" && detection.risk_score > 1)`, detection, `detection.participants.exists(p, p.role == "x" && detection.risk_score > 1)`},
		{"has is one part", `has(detection.resolution)`, detection, "has(detection.resolution)"},
		{"a negation is one part", `!(detection.risk_score > 60 && detection.recommended)`, detection, "!(detection.risk_score > 60 && detection.recommended)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := require.Value(NewExplainer(test.expression))(t)
			if test.want != "" {
				test.want = "did not match: " + test.want
			}
			assert.Equal(t, x.Why(test.event), test.want)
		})
	}
}

// twoKilobytes is a detection of the usual size.
var twoKilobytes = strings.NewReplacer("\n", "", "\t", "", `": `, `":`, `, "`, `,"`).Replace(`{
	"id": 25769803828, "start_time": 1739982210001, "update_time": 1739982300000, "end_time": 1739982300000,
	"title": "ICMP Tunnel", "description": "[Device 0e8398d29d3b0000](https://tenant.example#/metrics/devices/71c6ffe3ae8548bbbb9bf279c912d3ae.0e8398d29d3b0000/overview?from=1739982210&interval_type=DT&until=1739982300) sent ICMP requests with payloads that no other request had to an address outside. There were far more of them than this device has sent before.\n\nAbout 13000 such requests were seen; look into what they carry.",
	"risk_score": 61, "type": "icmp_tunnel", "recommended_factors": ["rare_type", "top_offender"], "recommended": true,
	"categories": ["sec", "sec.command", "sec.attack"], "properties": {"certificate": "dc1.corp.example:RSA_2048:3e426a1a3b2c2cae4cb51ec46b6c8a88"},
	"participants": [
		{"role": "offender", "scanner_service": null, "endpoint": "receiver", "external": true, "object_id": 25769803780, "object_type": "ipaddr", "object_value": "203.0.113.7", "hostname": "host.corp.example", "username": null, "id": 7189},
		{"role": "victim", "scanner_service": null, "endpoint": "sender", "external": false, "object_id": 25769803807, "object_type": "device", "object_value": "203.0.113.142", "username": null, "id": 7167}
	],
	"ticket_id": "2996", "assignee": null, "status": null, "resolution": null,
	"mitre_tactics": [{"id": "TA0011", "name": "Command and Control", "url": "https://attack.mitre.org/tactics/TA0011"}],
	"mitre_techniques": [{"id": "T1095", "name": "Non-Application Layer Protocol", "url": "https://attack.mitre.org/techniques/T1095", "legacy_ids": ["T1095"]}, {"id": "T1572", "name": "Protocol Tunneling", "url": "https://attack.mitre.org/techniques/T1572", "legacy_ids": ["T1572"]}],
	"appliance_id": 6, "is_user_created": false, "mod_time": 1750935535971, "create_time": 1739982301182,
	"url": "https://tenant.example/service/#/detections/detail/25769803828/?from=1739981310&until=1739983200&interval_type=DT"
}`)

func BenchmarkMatches(b *testing.B) {
	for _, bench := range []struct{ name, expression string }{
		{"attribute", `event.type.startsWith("io.ndrbridge.audit") && detection.risk_score >= 60`},
		{"attribute and field", `event.type.startsWith("io.ndrbridge.detection") && detection.risk_score >= 60`},
		{"two fields", `detection.risk_score >= 60 && detection.type == "icmp_tunnel"`},
		{"two fields from end to end", `detection.title != "x" && detection.is_user_created == false`},
		{"list of texts", `detection.risk_score >= 60 && "sec.attack" in detection.categories`},
		{"loop over participants", `detection.participants.exists(p, p.role == "victim" && !p.external)`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m := require.Value(Compile(bench.expression))(b)
			e := detectionEvent(b, twoKilobytes)
			b.SetBytes(int64(len(e.Data())))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Matches(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := Compile(`event.type.startsWith("io.ndrbridge.detection") && detection.risk_score >= 60`); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAMatchOfAContextIsDecidedWhenTheContextIsKnown(t *testing.T) {
	const critical = `context.devices.exists(d, d.critical)`
	tests := []struct {
		name, expression, context string
		want                      bool
	}{
		{"a known context decides", critical, `{"devices":[{"critical":true}]}`, true},
		{"a known context without such a device decides", critical, `{"devices":[{"critical":false}]}`, false},
		{"a pending context does not decide", critical, `{"devices":[{"critical":true}],"pending":true}`, false},
		{"its negation is not decided either", `!` + critical, `{"devices":[],"pending":true}`, false},
		{"an expression without the context does not wait for it", `detection.risk_score >= 80`, `{"devices":[],"pending":true}`, true},
		{"tags can be compared", `context.devices.exists(d, "crown jewels" in d.tags)`, `{"devices":[{"tags":["crown jewels"]}]}`, true},
		{"an absent context has no devices", critical, `null`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := require.Value(Compile(test.expression))(t)
			e := require.Value(transform.New(transform.Attributes{ID: "1", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated"},
				[]byte(`{"detection":{"risk_score":85},"context":`+test.context+`}`)))(t)
			matches := require.Value(m.Matches(e))(t)
			require.Equal(t, matches, test.want)
		})
	}
}

func TestFollowUpsAndRulesAreMatchedByTheirMembers(t *testing.T) {
	for _, test := range []struct {
		fixture, expression string
		want                bool
	}{
		{"detection.hidden", `visibility.state == "hidden" && visibility.rules.exists(r, r.id == 12) && detection.risk_score >= 80`, true},
		{"detection.shown", `visibility.state in ["hidden", "gone"]`, false},
		{"detection.noted", `note.author == "ada" && note.text.contains("Isolate")`, true},
		{"detection.evidence", `evidence.total > 1000 && evidence.records.exists(r, r["_type"] == "~http")`, true},
		{"detection.created", `visibility.state == "hidden"`, false},
		{"detection.created", `!(visibility.state == "hidden")`, false},
		{"heartbeat", `note.text == "x" || evidence.total > 1 || rule.id == 12`, false},
		{"rule.updated", `rule.enabled && "data_staging" in rule.detection_types && rule.author != "bob"`, true},
		{"blindspot.opened", `blindspot.kind == "exclusion_interval" && blindspot.alert_apply_all`, true},
	} {
		e := require.Value(fixture.Event(fixture.Spec{Name: test.fixture, Appliance: "hq"}))(t)
		m := require.Value(Compile(test.expression))(t)
		matches, err := m.Matches(e)
		require.True(t, matches == test.want && err == nil, test.fixture, test.expression, matches, err)
	}
}
