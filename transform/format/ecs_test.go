package format

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

var updateECS = flag.Bool("update-ecs", false, "write the documents and the list of fields in testdata")

func TestDocumentsHaveOnlyFieldsOfECSWithValuesOfTheirTypes(t *testing.T) {
	schema := readECS(t, usedECS)
	c := newECS(t)
	for _, k := range kinds(t) {
		document := c.Encode(k.event).Payload()
		for _, problem := range schema.check(document, nil) {
			t.Errorf("%s: %s", k.name, problem)
		}
	}
}

// TestTheFieldsInTestdataAreThoseOfECS compares the list with the official one.
func TestTheFieldsInTestdataAreThoseOfECS(t *testing.T) {
	if _, err := os.Stat(officialECS); err != nil {
		t.Skip("the official list of fields is not there")
	}
	official := readECS(t, officialECS)
	if *updateECS {
		reduced := ecsSchema{Version: official.Version, Fields: make(map[string]ecsField)}
		for name := range official.used(t) {
			if field, found := official.Fields[name]; found {
				reduced.Fields[name] = field
			}
		}
		b := require.Value(json.MarshalIndent(reduced, "", " "))(t)
		require.NoError(t, os.WriteFile(usedECS, append(b, '\n'), 0o644))
	}
	reduced := readECS(t, usedECS)
	assert.Equal(t, reduced.Version, official.Version, "version")
	for name, field := range reduced.Fields {
		want, found := official.Fields[name]
		got, _ := json.Marshal(field)
		if expected, _ := json.Marshal(want); !found || !bytes.Equal(got, expected) {
			t.Errorf("%s: %s, want %s", name, got, expected)
		}
	}
}

// goldenECS are the events whose documents are in testdata, by the names of the files.
var goldenECS = map[string]string{
	"detection": "detection/whole", "detection-closed": "detection/closed", "detection-enriched": "detection/enriched", "detection-least": "detection/least",
	"follow-up-hidden": "follow-up/hidden", "follow-up-noted": "follow-up/noted", "follow-up-context": "follow-up/context", "follow-up-evidence": "follow-up/evidence",
	"audit-configuration": "audit/modify", "audit-authentication": "audit/Login failed of Users", "audit-user": "audit/Delete of User groups",
	"record-http": "record/~http 1", "record-dns": "record/~dns 1", "record-tls": "record/~ssl 1", "record-flow": "record/~flow 1",
	"record-cifs": "record/~cifs 1", "record-smtp": "record/~smtp 1", "record-ssh": "record/~ssh 1", "event-gap": "own/audit.gap", "event-rejected": "own/ticket.rejected",
	"event-heartbeat": "own/heartbeat",
}

func TestDocumentsOfEachKindInECS(t *testing.T) {
	c := newECS(t)
	for _, name := range slices.Sorted(maps.Keys(goldenECS)) {
		got := jsontext.Value(c.Encode(kindNamed(t, goldenECS[name])).Payload())
		require.NoError(t, got.Indent())
		got = append(got, '\n')
		file := filepath.Join("testdata", "ecs", name+".json")
		if *updateECS {
			require.NoError(t, os.WriteFile(file, got, 0o644))
		}
		want := require.Value(os.ReadFile(file))(t)
		assert.True(t, bytes.Equal(got, want), file, "run go test -update-ecs if this is right", string(got))
	}
}

// TestNoValueOfAnEventIsLostInECS finds each text and number of the data in the document.
func TestNoValueOfAnEventIsLostInECS(t *testing.T) {
	c := newECS(t)
	for _, k := range kinds(t) {
		found := scalars(c.Encode(k.event).Payload())
		all := strings.Join(slices.Collect(maps.Keys(found)), "\n")
		for value := range scalars(k.event.Data()) {
			if found[value] || isTimeIn(found, value) || strings.Contains(all, value) {
				continue
			}
			if encoded, _ := json.Marshal(value); strings.Contains(all, strings.Trim(string(encoded), `"`)) {
				continue // in a string of JSON
			}
			switch value {
			case "device", "ipaddr4", "ipaddr6", "ipaddr", "string": // the type beside a value
			case "80.0": // 80
			default:
				t.Errorf("%s: %.200q is not in the document", k.name, value)
			}
		}
	}
}

// scalars returns the texts and numbers of a JSON value, and the texts whose parts are
// arrays.
func scalars(value []byte) map[string]bool {
	found := make(map[string]bool)
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var parts []string
	for {
		token, err := d.ReadToken()
		if err != nil {
			return found
		}
		_, length := d.StackIndex(d.StackDepth())
		kind, _ := d.StackIndex(d.StackDepth())
		isName := kind == '{' && length%2 == 1
		switch {
		case token.Kind() == '"' && !isName, token.Kind() == '0':
			text := strings.ToValidUTF8(token.String(), "\uFFFD")
			found[text] = true
			parts = append(parts, text)
		case token.Kind() == ']':
			if text := strings.Join(parts, ""); len(text) > maxFlatText {
				found[text] = true
			}
			parts = nil
		default:
			parts = nil
		}
	}
}

// isTimeIn reports whether a number of milliseconds is among the texts as a time.
func isTimeIn(found map[string]bool, value string) bool {
	if value == "" {
		return true
	}
	ms, ok := jsonscan.Millis([]byte(value))
	return ok && found[time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")]
}

func TestECSOfADetection(t *testing.T) {
	participants := func(list string) []string { return []string{"participants", list} }
	for _, test := range []struct {
		name    string
		members []string
		want    map[string]string // JSON by path; "" if it must be absent
	}{
		{"the first offender is the source and the first victim the destination", nil, map[string]string{
			"source.ip": `"10.3.99.164"`, "source.domain": `"files-3.corp.example"`, "source.user.name": `"ada"`, "source.port": "63855",
			"destination.ip": `"203.0.113.17"`, "destination.port": "443", "network.direction": `"outbound"`,
			"related.ip": `["10.3.99.164","203.0.113.17","2001:db8::17","192.0.2.9"]`, "related.user": `["ada","grace"]`,
		}},
		{"a server that offends has the server's port", participants(`[{"role":"offender","endpoint":"server"},{"role":"victim","endpoint":"client"}]`), map[string]string{
			"source.port": "443", "destination.port": "63855",
		}},
		{"ports of endpoints that do not agree are unknown", participants(`[{"role":"offender","endpoint":"client"},{"role":"victim","endpoint":"client"}]`), map[string]string{
			"source.port": "", "destination.port": "",
		}},
		{"ports of senders and receivers are unknown", participants(`[{"role":"offender","endpoint":"sender"},{"role":"victim","endpoint":"receiver"}]`), map[string]string{
			"source.port": "", "destination.port": "",
		}},
		{"the port of the only participant is known", participants(`[{"role":"offender","endpoint":"server"}]`), map[string]string{"source.port": "443", "destination.port": ""}},
		{"an object_value that is no address is an address of any kind", participants(`[{"role":"offender","object_value":"10.0.0.0/8"}]`), map[string]string{
			"source.address": `"10.0.0.0/8"`, "source.ip": "", "related.ip": "",
		}},
		{"participants that are no objects are unmapped", participants(`["10.0.0.1"]`), map[string]string{
			"ndrbridge.detection.participants": "", "ndrbridge.unmapped.participants": `["10.0.0.1"]`,
		}},
		{"a subtechnique belongs to its technique", []string{"mitre_techniques", `[{"id":"T1071.004","name":"DNS"}]`}, map[string]string{
			"threat.technique": `{"id":["T1071"],"subtechnique":{"id":["T1071.004"],"name":["DNS"]}}`, "threat.framework": `"MITRE ATT&CK"`,
			"ndrbridge.unmapped": "",
		}},
		{"ids and names may be texts", []string{"mitre_tactics", `["TA0011","Lateral Movement"]`}, map[string]string{
			"threat.tactic": `{"id":["TA0011"],"name":["Lateral Movement"]}`,
		}},
		{"unknown members of a tactic are unmapped", []string{"mitre_tactics", `[{"id":"TA0011","x":1}]`}, map[string]string{
			"threat.tactic": `{"id":["TA0011"]}`, "ndrbridge.unmapped": `{"mitre_tactics":[{"id":"TA0011","x":1}]}`,
		}},
		{"a category implies tactics and a technique", []string{"mitre_tactics", "[]", "mitre_techniques", "", "categories", `["sec","sec.ransomware"]`}, map[string]string{
			"threat.tactic":    `{"id":["TA0040"],"name":["Impact"],"reference":["https://attack.mitre.org/tactics/TA0040"]}`,
			"threat.technique": `{"id":["T1486"],"name":["Data Encrypted for Impact"],"reference":["https://attack.mitre.org/techniques/T1486"]}`,
			"event.category":   `["intrusion_detection","malware","network"]`, "rule.category": `"sec.ransomware"`,
		}},
		{"a category implies several techniques", []string{"mitre_tactics", "[]", "mitre_techniques", "", "categories", `["sec","sec.dos"]`}, map[string]string{
			"threat.tactic.id": `["TA0040"]`, "threat.technique.id": `["T1498","T1499"]`,
		}},
		{"a category without a tactic implies no threat", []string{"mitre_tactics", "", "mitre_techniques", "null", "categories", `["sec","sec.hardening","other.unknown"]`}, map[string]string{
			"threat": "", "event.category": `["intrusion_detection","network"]`,
		}},
		{"performance is no intrusion", []string{"mitre_tactics", "", "mitre_techniques", "", "categories", `["perf","perf.db"]`, "risk_score", ""}, map[string]string{
			"event.category": `["network"]`, "event.kind": `"alert"`, "event.risk_score": "", "event.severity": "0",
		}},
		{"a ticket_id that is a number is a text", []string{"ticket_id", "3041"}, map[string]string{"ndrbridge.detection.ticket_id": `"3041"`}},
		{"an id is a text", nil, map[string]string{"ndrbridge.detection.id": `"25769804127"`, "event.id": `"25769804127-1773479898715"`}},
		{"a closed detection", []string{"status", `"closed"`, "resolution", `"action_taken"`}, map[string]string{
			"event.action": `"closed"`, "labels": `{"resolution":"action_taken","status":"closed"}`,
		}},
		{"a risk score that a float cannot hold is unmapped", []string{"risk_score", "1e39"}, map[string]string{
			"event.risk_score": "", "ndrbridge.unmapped.risk_score": "1e39",
		}},
		{"a fraction of a risk score is kept", []string{"risk_score", "80.10"}, map[string]string{"event.risk_score": "80.10", "event.severity": "73"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c collector
			c.detection(test.name, with(detectionObject, test.members...), transform.Observation{Created: true})
			if c.err != nil {
				t.Fatal(c.err)
			}
			wantECS(t, c.kinds[0].event, test.want)
		})
	}
}

func TestECSOfAnAuditEntry(t *testing.T) {
	for _, test := range []struct {
		name, body string
		want       map[string]string
	}{
		{"a login", `{"operation":"Login","user":"ada","details":"Web UI","source_ip":"192.0.2.7"}`, map[string]string{
			"event.category": `["authentication"]`, "event.type": `["start"]`, "event.outcome": `"success"`, "event.action": `"Login"`,
			"user.name": `"ada"`, "source.ip": `"192.0.2.7"`, "related": `{"ip":["192.0.2.7"],"user":["ada"]}`,
		}},
		{"a login that failed by its details", `{"operation":"Login","details":"Invalid password"}`, map[string]string{"event.outcome": `"failure"`}},
		{"a logout", `{"operation":"Logout","component":"Users"}`, map[string]string{"event.category": `["authentication"]`, "event.type": `["end"]`}},
		{"a change of a user", `{"operation":"Modify","component":"Users"}`, map[string]string{"event.category": `["iam"]`, "event.type": `["user","change"]`}},
		{"a new group", `{"operation":"Created","component":"User groups"}`, map[string]string{"event.type": `["group","creation"]`}},
		{"a look at a user", `{"operation":"View","component":"Users"}`, map[string]string{"event.type": `["user","info"]`}},
		{"a deletion", `{"operation":"Delete","component":"Alerts"}`, map[string]string{"event.category": `["configuration"]`, "event.type": `["deletion"]`}},
		{"a download", `{"operation":"Download","component":"Packets"}`, map[string]string{"event.type": `["access"]`}},
		{"an operation whose name only contains a word", `{"operation":"Address resettlement"}`, map[string]string{"event.type": `["info"]`, "event.outcome": ""}},
		{"a user that is an object", `{"operation":"Restart","user":{"name":"ada","id":7}}`, map[string]string{
			"user.name": `"ada"`, "ndrbridge.audit.body": `{"operation":"Restart","user":{"name":"ada","id":7}}`, "ndrbridge.unmapped": "",
		}},
		{"a body that is a text", `"ada signed in"`, map[string]string{
			"message": `"ada signed in"`, "event.action": `"logged"`, "event.type": `["info"]`, "ndrbridge.audit.body": "", "ndrbridge.unmapped": "",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c collector
			c.audit(test.name, `{"id":7,"time":1773480413000,"occur_time":1773480412997,"body":`+test.body+`}`)
			if c.err != nil {
				t.Fatal(c.err)
			}
			wantECS(t, c.kinds[0].event, test.want)
		})
	}
}

func TestECSOfARecord(t *testing.T) {
	for _, test := range []struct {
		name, recordType, source string
		want                     map[string]string
	}{
		{"a client is a source and a server a destination", "~ssh", `{"clientAddr":{"type":"ipaddr4","value":"10.0.0.1"},"clientPort":5,"serverAddr":"10.0.0.2","reqBytes":2,"rspBytes":3}`, map[string]string{
			"client": `{"address":"10.0.0.1","bytes":2,"ip":"10.0.0.1","port":5}`, "source": `{"address":"10.0.0.1","bytes":2,"ip":"10.0.0.1","port":5}`,
			"server": `{"address":"10.0.0.2","bytes":3,"ip":"10.0.0.2"}`, "destination.ip": `"10.0.0.2"`, "network.bytes": "5", "network.protocol": `"ssh"`,
		}},
		{"a sender is no client", "~flow", `{"senderAddr":"10.0.0.1","receiverAddr":"2001:db8::1","proto":"TCP","bytes":7,"pkts":2,"first":1000,"last":2000.5}`, map[string]string{
			"client": "", "source.ip": `"10.0.0.1"`, "destination.ip": `"2001:db8::1"`, "network": `{"bytes":7,"packets":2,"transport":"tcp","type":"ipv4"}`,
			"event.start": `"1970-01-01T00:00:01.000Z"`, "event.end": `"1970-01-01T00:00:02.000Z"`, "event.type": `["connection"]`,
		}},
		{"inbound", "~flow", `{"clientIsExternal":true,"serverIsExternal":false}`, map[string]string{"network.direction": `"inbound"`}},
		{"outbound by sender and receiver", "~flow", `{"senderIsExternal":false,"receiverIsExternal":true}`, map[string]string{"network.direction": `"outbound"`}},
		{"internal", "~flow", `{"clientIsExternal":false,"serverIsExternal":false}`, map[string]string{"network.direction": `"internal"`}},
		{"external", "~flow", `{"clientIsExternal":true,"serverIsExternal":true}`, map[string]string{"network.direction": `"external"`}},
		{"of unknown direction", "~flow", `{"clientIsExternal":true}`, map[string]string{"network.direction": "", "ndrbridge.unmapped.clientIsExternal": "true"}},
		{"a community_id only if it is given", "~flow", `{"communityId":"1:x="}`, map[string]string{"network.community_id": `"1:x="`}},
		{"HTTP with an error", "~http", `{"method":"GET","uri":"a.example/b?","statusCode":404,"contentType":"text/html; charset=utf-8"}`, map[string]string{
			"event.type": `["access","error"]`, "event.outcome": `"failure"`, "http.response.status_code": "404", "url": `{"original":"a.example/b?","path":"/b?"}`,
			"http.response.mime_type": `"text/html"`, "ndrbridge.unmapped.contentType": `"text/html; charset=utf-8"`,
		}},
		{"HTTP without a response", "~http", `{"method":"GET","statusCode":0}`, map[string]string{
			"event.type": `["access"]`, "event.outcome": "", "http": `{"request":{"method":"GET"}}`, "ndrbridge.unmapped.statusCode": "0",
		}},
		{"DNS without answers", "~dns", `{"qname":"a.example","qtype":"A","error":"NXDOMAIN","answers":[]}`, map[string]string{
			"dns": `{"question":{"name":"a.example","type":"A"},"response_code":"NXDOMAIN"}`,
		}},
		{"DNS with answers that are texts", "~dns", `{"answers":["10.0.0.1","a.example"]}`, map[string]string{
			"dns": `{"answers":[{"data":"10.0.0.1"},{"data":"a.example"}],"resolved_ip":["10.0.0.1"],"type":"answer"}`,
		}},
		{"TLS", "~ssl", `{"version":"TLSv1.3"}`, map[string]string{"tls": `{"version":"1.3","version_protocol":"tls"}`}},
		{"an address that is only related keeps its name", "~dhcp", `{"offeredAddr":{"type":"ipaddr4","value":"10.0.0.9"},"clientAddr":"10.0.0.1"}`, map[string]string{
			"related.ip": `["10.0.0.1","10.0.0.9"]`, "ndrbridge.unmapped.offeredAddr": `"10.0.0.9"`, "ndrbridge.unmapped.clientAddr": "",
		}},
		{"of an unknown type", "custom", `{"colour":"red"}`, map[string]string{"network.protocol": "", "ndrbridge.unmapped.colour": `"red"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c collector
			c.record(test.name, recordObject(test.recordType, test.source))
			if c.err != nil {
				t.Fatal(c.err)
			}
			wantECS(t, c.kinds[0].event, test.want)
		})
	}
}

// wantECS compares values of an event's document.
func wantECS(t *testing.T, e transform.Event, want map[string]string) {
	t.Helper()
	document := newECS(t).Encode(e).Payload()
	for path, value := range want {
		assert.Equal(t, string(lookup(document, path)), value, path, "is")
	}
}

func TestFlattenedValuesAreThoseThatIndexesAccept(t *testing.T) {
	long := strings.Repeat("é", maxFlatText/2)
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	var many strings.Builder
	for i := range 200 {
		many.WriteString(`"n` + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + `":1,`)
	}
	for _, test := range []struct{ name, value, want string }{
		{"an object", `{"a":1,"b":[true,null,"x"]}`, `{"a":1,"b":[true,null,"x"]}`},
		{"objects", `[{"a":1}, {}]`, `[{"a":1},{}]`},
		{"an empty object", `{}`, ""},
		{"no objects", `[]`, ""},
		{"texts", `["x"]`, ""},
		{"an object and null", `[{"a":1},null]`, ""},
		{"a text", `"x"`, ""},
		{"a name twice", `{"a":1,"a":2}`, ""},
		{"a name twice inside", `{"o":{"a":1,"a":2}}`, `{"o":"{\"a\":1,\"a\":2}"}`},
		{"a name twice among many", `{"o":{` + many.String() + `"na":2}}`, `{"o":"{` + strings.ReplaceAll(many.String(), `"`, `\"`) + `\"na\":2}"}`},
		{"many names", `{` + many.String() + `"last":2}`, `{` + many.String() + `"last":2}`},
		{"an empty name", `{"o":[{"":1}]}`, `{"o":["{\"\":1}"]}`},
		{"NUL in a name", `{"o":{"\u0000":1}}`, `{"o":"{\"\\u0000\":1}"}`},
		{"a long name", `{"o":{"` + strings.Repeat("n", 513) + `":1}}`, `{"o":"{\"` + strings.Repeat("n", 513) + `\":1}"}`},
		{"a long text", `{"a":"` + long + `xyz"}`, `{"a":["` + long + `","xyz"]}`},
		{"a number beyond a double", `{"a":[1e999,-1,18446744073709551617]}`, `{"a":["1e999",-1,18446744073709551617]}`},
		{"a number of many digits", `{"a":0.` + strings.Repeat("1", 2000) + `}`, `{"a":"0.` + strings.Repeat("1", 2000) + `"}`},
		{"an unpaired surrogate", `{"a":"\ud800"}`, `{"a":"` + "\uFFFD" + `"}`},
		{"ten levels", deep(10), deep(10)},
		{"more levels", deep(11), strings.Repeat(`{"a":`, 10) + `"{\"a\":1}"` + strings.Repeat("}", 10)},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, f := flattened(nil, []byte(test.value))
			if f == none {
				got = nil
			}
			if string(got) != test.want {
				t.Errorf("%.300s\nwant %.300s", got, test.want)
			}
		})
	}
}

func FuzzECS(f *testing.F) {
	schema := readECS(f, usedECS)
	for _, name := range goldenECS {
		e := kindNamed(f, name)
		f.Add(e.Stream(), []byte(e.Data()))
	}
	c := newECS(f)
	f.Fuzz(func(t *testing.T, stream string, data []byte) {
		if !slices.Contains([]string{"detections", "audit", "records", "events"}, stream) || !json.Valid(data) || !jsontext.Value(bytes.ToValidUTF8(data, nil)).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			return
		}
		data = bytes.TrimSpace(bytes.ToValidUTF8(data, nil))
		if !json.Valid(data) {
			return
		}
		if stream == "audit" {
			stream = "audit"
		}
		document := c.Encode(event(t, stream, string(data))).Payload()
		require.True(t, jsontext.Value(document).IsValid(), "not valid JSON with unique names", string(document))
		for _, problem := range schema.check(document, nil) {
			t.Error(problem)
		}
	})
}

// indexed returns the types of the fields that the index template for Elasticsearch maps.
func indexed(t testing.TB) map[string]string {
	t.Helper()
	type object struct {
		Type       string
		Properties map[string]json.RawMessage
	}
	var component struct {
		Template struct{ Mappings object }
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "elastic", "elasticsearch", "component.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &component))
	types := make(map[string]string)
	var add func(prefix string, o object)
	add = func(prefix string, o object) {
		for name, text := range o.Properties {
			var inner object
			require.NoError(t, json.Unmarshal(text, &inner))
			if inner.Type != "" {
				types[prefix+name] = inner.Type
			}
			add(prefix+name+".", inner)
		}
	}
	add("", component.Template.Mappings)
	return types
}

// TestIndexTemplateMapsEveryFieldOfECS also finds fields that documents no longer have.
func TestIndexTemplateMapsEveryFieldOfECS(t *testing.T) {
	got := indexed(t)
	want := map[string]string{"event.ingested": "date", "ndrbridge.unmapped": "flattened"}
	schema := readECS(t, usedECS)
	for path, f := range schema.Fields {
		if f.Type != "object" {
			want[path] = f.Type
		}
	}
	for _, table := range newReader(Options{}, "ecs").tables {
		for _, row := range table.rows {
			switch f, found := schema.field(row.field); {
			case found && f.Type != "object":
				want[row.field] = f.Type
			case !found && !isObject(want, row.field): // none of the tests' events has it
				if want[row.field] = got[row.field]; got[row.field] == "" {
					want[row.field] = "a type of ECS"
				}
			}
		}
	}
	want["ndrbridge.detection.description"] = "match_only_text"
	for _, path := range slices.Sorted(maps.Keys(want)) {
		assert.Equal(t, got[path], want[path], path, "is mapped as")
		delete(got, path)
	}
	for path := range got {
		t.Errorf("%s is mapped, but no document has it", path)
	}
}

// isObject reports whether some fields are parts of path.
func isObject(fields map[string]string, path string) bool {
	for field := range fields {
		if strings.HasPrefix(field, path+".") {
			return true
		}
	}
	return false
}
