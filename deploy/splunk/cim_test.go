package splunk_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/fixture"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// model is a data model of Splunk's Common Information Model 5: the tags of its events, and
// the fields that the model requires and every event can have. A pattern restricts the
// values; the models themselves write unknown for a field that is missing. What only some
// events have, such as ports and bytes, is checked where it is present.
type model struct {
	tags   []string
	fields map[string]*regexp.Regexp
}

var (
	something = regexp.MustCompile(`.`)
	quantity  = regexp.MustCompile(`^\d+(\.\d+)?$`)
)

// words matches one of several words.
func words(all string) *regexp.Regexp { return regexp.MustCompile("^(" + all + ")$") }

var models = map[string]model{
	"Alerts": {[]string{"alert"}, map[string]*regexp.Regexp{
		"app": something, "description": something, "dest": something, "id": something, "signature": something, "signature_id": something,
		"severity": words(`critical|high|medium|low|informational|unknown`), "src": something, "type": words(`alarm|alert|event|task|warning|unknown`), "user": something,
	}},
	"Intrusion Detection": {[]string{"ids", "attack"}, map[string]*regexp.Regexp{
		"action": words(`allowed|blocked`), "category": something, "dest": something, "dvc": something, "ids_type": words(`network|host|application|wireless`),
		"severity": words(`critical|high|medium|low|informational|unknown`), "signature": something, "src": something, "vendor_product": something,
	}},
	"Authentication": {[]string{"authentication"}, map[string]*regexp.Regexp{
		"action": words(`success|failure|pending|error`), "app": something, "dest": something, "src": something, "user": something,
	}},
	"Change": {[]string{"change"}, map[string]*regexp.Regexp{
		"action": words(`acl_modified|cleared|created|deleted|modified|read|stopped|updated`), "change_type": something, "command": something,
		"dest": something, "dvc": something, "object": something, "object_attrs": regexp.MustCompile(`^[^"]+$`), "object_category": something, "object_id": regexp.MustCompile(`^[^"]+$`),
		"src": something, "status": words(`success|failure`), "user": something, "vendor_product": something,
	}},
	"Network Traffic": {[]string{"network", "communicate"}, map[string]*regexp.Regexp{
		"action": words(`allowed|blocked|teardown|flow`), "app": something, "dest": something, "dvc": something, "src": something,
		"transport": words(`tcp|udp|icmp|unknown`), "protocol": words(`ip|icmp`), "vendor_product": something,
	}},
	"Web": {[]string{"web"}, map[string]*regexp.Regexp{
		"action": something, "category": something, "dest": something, "src": something, "status": words(`[1-5]\d\d|unknown`),
		"http_method": words(`GET|PUT|POST|DELETE|HEAD|OPTIONS|CONNECT|TRACE|PATCH`), "http_user_agent": something, "http_user_agent_length": quantity,
		"url": regexp.MustCompile(`^https?://[^/]+/`), "url_domain": regexp.MustCompile(`^[^/]+$`), "uri_path": regexp.MustCompile(`^/`), "vendor_product": something,
	}},
	"Network Resolution": {[]string{"network", "resolution", "dns"}, map[string]*regexp.Regexp{
		"answer": something, "answer_count": quantity, "dest": something, "message_type": words(`Query|Response|unknown`), "query": something, "query_count": quantity,
		"query_type": words(`Query|IQuery|Status|Notify|Update|unknown`), "record_type": words(`[A-Z0-9]+|unknown`),
		"reply_code":    words(`No Error|Format Error|Server Failure|Non-Existent Domain|NotImp|Refused|unknown`),
		"reply_code_id": words(`\d+|unknown`), "src": something, "transaction_id": something, "transport": something, "vendor_product": something,
	}},
}

// quantities are fields whose values must be numbers wherever they are present.
var quantities = []string{"bytes", "bytes_in", "bytes_out", "packets", "packets_in", "packets_out", "src_port", "dest_port", "response_time"}

// document is an event as it is sent to Splunk.
type document struct {
	name, sourceType string
	raw              []byte
}

var encoder = transform.Encoder{Appliance: "hq"}

// sourceTypeOf returns the source type that the preset splunk_hec sets; its tests check that.
func sourceTypeOf(e transform.Event) string {
	return "ndrbridge:" + strings.TrimSuffix(e.Stream(), "s")
}

// fixtureDetection returns a detection of the fixtures, whose bytes that are not UTF-8 were
// replaced.
func fixtureDetection(t testing.TB, name string) transform.Detection {
	t.Helper()
	object := require.Value(fixture.Object(name))(t)
	d := require.Value(transform.ParseDetection(object, bytes.ContainsRune(object, '\uFFFD')))(t)
	return d
}

// documents returns events of every kind: those of the fixtures, those of the tests of
// presets, and records and entries of other shapes.
func documents(t testing.TB) (all []document) {
	t.Helper()
	add := func(name string, e transform.Event, err error) {
		t.Helper()
		require.NoError(t, err, name)
		all = append(all, document{name, sourceTypeOf(e), e.Structured()})
	}
	for _, name := range fixture.Names() {
		e, err := fixture.Event(fixture.Spec{Name: name, Appliance: "hq", Query: "web"})
		add("fixture "+name, e, err)
		add("fixture "+name+", redelivered", e.Redeliver(1), nil)
	}
	now := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	updated, err := encoder.Detection(fixtureDetection(t, "closed"), transform.Observation{
		Before: fixtureDetection(t, "detection").Tracked, Repeat: 2, Recorded: now, CausedBy: transform.CausedByWriteback,
		Added: transform.Enrichment{
			Devices: []byte(`[{"id":245,"display_name":"files-3","ipaddr4":"10.3.99.164","device_class":"node"}]`),
			Link:    "https://sensor.example/#/detections/detail/25769804127",
			Failed:  "format",
		},
	})
	add("fixture closed, enriched", updated, err)
	redaction, err := transform.ParseRedaction([]string{"detection.assignee", "detection.participants.object_value"})
	require.NoError(t, err)
	redacted, err := redaction.Apply(updated)
	add("fixture closed, redacted", redacted, err)
	repaired, err := encoder.Detection(fixtureDetection(t, "small"), transform.Observation{Recorded: now})
	add("fixture small, repaired", repaired, err)
	for _, kind := range presettest.Events(t) {
		add(kind.Name, kind.Event, nil)
	}
	for name, object := range records {
		e, err := encoder.Record("all", transform.ParseRecord([]byte(`{"_id":"a","_index":"b",`+object+`}`), false), now)
		add(name, e, err)
	}
	for name, body := range entries {
		entry, err := transform.ParseAuditEntry([]byte(`{"id":1,"time":1773480000120,"body":`+body+`}`), false)
		require.NoError(t, err)
		e, err := encoder.AuditEntry(entry, now)
		add(name, e, err)
	}
	for name, object := range detections {
		d, err := transform.ParseDetection([]byte(`{"id":9,"mod_time":1773480500000,`+object+`}`), false)
		require.NoError(t, err)
		e, err := encoder.Detection(d, transform.Observation{Recorded: now})
		add(name, e, err)
	}
	return all
}

var records = map[string]string{
	"record-http-client":      `"_type":"~http","_source":{"timestamp":1773480100123.25,"client":{"type":"device","value":["fff41107140a0000"]},"clientAddr":{"type":"ipaddr4","value":"192.0.2.14"},"clientPort":34140,"serverAddr":{"type":"ipaddr4","value":"198.51.100.80"},"serverPort":80,"host":"shop.example:80","uri":"shop.example/cart?","query":"a=1&b=\"2\"","method":"get","referer":"http://shop.example/","reqBytes":1160,"rspBytes":346,"reqPkts":5,"rspPkts":8,"processingTime":233.318,"statusCode":302,"contentType":"text/html","userAgent":"Mozilla/5.0","flowId":"0cac"}`,
	"record-http-unanswered":  `"_type":"~http","_source":{"clientAddr":"192.0.2.14","serverAddr":"2001:db8::80","serverPort":443,"method":"POST","uri":"/login","statusCode":0,"userAgent":null,"query":null,"rspBytes":null}`,
	"record-flow":             `"_type":"~flow","_source":{"senderAddr":{"type":"ipaddr6","value":"2001:db8::14"},"senderPort":5000,"receiverAddr":{"type":"ipaddr6","value":"2001:db8::80"},"receiverPort":443,"proto":"TCP","l7proto":"tls","bytes":9007199259631990,"pkts":12}`,
	"record-flow-ping":        `"_type":"~flow","_source":{"senderAddr":"192.0.2.14","receiverAddr":"192.0.2.1","proto":"ICMP","bytes":64}`,
	"record-dns-query":        `"_type":"~dns_request","_source":{"clientAddr":{"type":"ipaddr4","value":"192.0.2.14"},"serverAddr":{"type":"ipaddr4","value":"192.0.2.53"},"serverPort":53,"qname":"a.example","qtype":"AAAA","txId":4711}`,
	"record-dns-answers":      `"_type":"~dns_response","_source":{"clientAddr":{"type":"ipaddr4","value":"192.0.2.14"},"serverAddr":{"type":"ipaddr4","value":"192.0.2.53"},"qname":"a.example","qtype":"A","error":null,"rcode":"NOERROR","answers":[{"data":"198.51.100.1","ttl":60},{"data":"198.51.100.2","ttl":60}],"processingTime":2.5}`,
	"record-dns-no-such-name": `"_type":"~dns_response","_source":{"clientAddr":"192.0.2.14","serverAddr":"192.0.2.53","qname":"b.example","qtype":"A","error":"NXDOMAIN","answers":[]}`,
	"record-ssh":              `"_type":"~ssh","_source":{"clientAddr":"192.0.2.14","serverAddr":"192.0.2.15","serverPort":22,"user":"ada"}`,
	"record-of-a-trigger":     `"_type":"licences","_source":{"used":12}`,
}

var entries = map[string]string{
	"audit-login-failed":   `{"operation":"Login failed","user":"mallory","component":"Administration","details":"user \"mallory\" from 2001:db8:1::7 at 12:30:45"}`,
	"audit-logout":         `{"operation":"Logout","user":"ada","component":"Authentication","details":"Web UI session of 192.0.2.9 ended"}`,
	"audit-user-created":   `{"operation":"Create","user":"setup","component":"Users","details":"Created user \"grace\""}`,
	"audit-rule-changed":   `{"operation":"Modify","user":"ada","component":"Tuning rules","details":"Changed tuning rule 12"}`,
	"audit-without-fields": `{}`,
}

var detections = map[string]string{
	"detection-of-old-firmware":    `"risk_score":15,"type":"rare_ssh_port","title":"Rare SSH Port","categories":["sec.command"],"participants":[{"object_type":"device","object_id":1904,"role":"victim","external":false,"id":1}]`,
	"detection-hostnames-only":     `"risk_score":95,"type":"x","title":"X","categories":["sec","sec.exfil"],"participants":[{"role":"victim","hostname":"db1.example","object_value":null},{"hostname":"pc7.example","username":"lena","role":"offender","object_value":null}]`,
	"detection-with-score-0":       `"risk_score":0,"type":"x","title":"X"`,
	"detection-of-a-cache":         `"type":"cache","title":"Slow Cache","categories":["perf.cache"]`,
	"detection-with-quoted-titles": `"risk_score":81,"type":"x","title":"{\"role\":\"offender\",\"object_value\":\"203.0.113.66\"}","participants":[{"role":"offender","object_value":"2001:db8::5","username":"a \"b\""}]`,
}

// want is what documents must show, by name: the models, and some of the fields.
var want = map[string]struct {
	models string
	fields fields
}{
	"detection-created": {"Alerts, Intrusion Detection", fields{"src": {"192.0.2.14"}, "src_ip": {"192.0.2.14"}, "dest": {"198.51.100.9"}, "dest_host": {"db1.corp.example"},
		"severity": {"medium"}, "signature": {"Scan of Ports on the Database Server"}, "signature_id": {"port_scan"}, "category": {"sec.recon", "sec.attack"},
		"id": {"25769804201"}, "event_id": {"25769804201-1773480412000"}, "event_type": {"io.ndrbridge.detection.created"}, "dvc": {"hq"}, "user": {"unknown"}, "mitre_technique_id": {"T1046"}}},
	"fixture detection.updated":    {"Alerts, Intrusion Detection", nil},
	"fixture detection.hidden":     {"", fields{"event_type": {"io.ndrbridge.detection.hidden"}, "id": {"25769804127"}, "severity": {"high"}}},
	"detection-critical":           {"Alerts, Intrusion Detection", fields{"severity": {"critical"}}},
	"detection-performance":        {"", fields{"severity": {"unknown"}}},
	"detection-with-score-0":       {"Alerts, Intrusion Detection", fields{"severity": {"unknown"}}},
	"detection-of-a-cache":         {"", nil},
	"detection-bare":               {"Alerts, Intrusion Detection", fields{"severity": {"unknown"}, "src": {"unknown"}, "dest": {"unknown"}, "id": {"7"}}},
	"detection-odd-types":          {"Alerts, Intrusion Detection", fields{"severity": {"unknown"}, "signature": {"17"}, "category": {"sec"}}},
	"detection-of-old-firmware":    {"Alerts, Intrusion Detection", fields{"severity": {"low"}, "src": {"unknown"}, "dest": {"device:1904"}, "dest_ip": nil}},
	"detection-hostnames-only":     {"Alerts, Intrusion Detection", fields{"severity": {"critical"}, "src": {"pc7.example"}, "dest": {"db1.example"}, "src_ip": nil, "user": {"lena"}}},
	"detection-with-quoted-titles": {"Alerts, Intrusion Detection", fields{"severity": {"high"}, "src_ip": {"2001:db8::5"}, "user": {`a "b"`}, "category": {"unknown"}}},
	"audit":                        {"Authentication", fields{"action": {"success"}, "src": {"192.0.2.14"}, "dest": {"hq"}, "user": {"setup"}, "app": {"ndr"}}},
	"audit-login-failed":           {"Authentication", fields{"action": {"failure"}, "src_ip": {"2001:db8:1::7"}, "user": {"mallory"}}},
	"audit-logout":                 {"", nil},
	"audit-user-created":           {"Change", fields{"action": {"created"}, "object_category": {"user"}, "change_type": {"AAA"}, "src_user": {"setup"}, "user": {"unknown"}, "tag": {"account", "change"}}},
	"audit-rule-changed":           {"Change", fields{"action": {"modified"}, "object_category": {"tuning rules"}, "object": {"Changed tuning rule 12"}, "user": {"ada"}, "src_user": nil}},
	"audit-without-fields":         {"Change", fields{"command": {"unknown"}, "user": {"unknown"}}},
	"audit-gap":                    {"", nil},
	"heartbeat":                    {"", nil},
	"record": {"Web", fields{"src": {"192.0.2.14"}, "dest": {"198.51.100.80"}, "url": {"http://intranet.example/login"}, "url_domain": {"intranet.example"},
		"uri_path": {"/login"}, "http_method": {"POST"}, "status": {"302"}, "app": {"http"}, "bytes": nil}},
	"record-http-client": {"Web", fields{"src_port": {"34140"}, "dest_port": {"80"}, "url": {`http://shop.example/cart??a=1&b="2"`}, "url_domain": {"shop.example"}, "http_method": {"GET"},
		"bytes": {"1506"}, "bytes_out": {"1160"}, "bytes_in": {"346"}, "packets": {"13"}, "response_time": {"233.318"}, "http_user_agent_length": {"11"}, "http_referrer": {"http://shop.example/"}, "flow_id": {"0cac"}}},
	"record-http-unanswered":  {"Web", fields{"status": {"unknown"}, "url": {"https://[2001:db8::80]/login"}, "url_domain": {"2001:db8::80"}, "http_user_agent": {"unknown"}, "src": {"192.0.2.14"}}},
	"record-flow":             {"Network Traffic", fields{"src_ip": {"2001:db8::14"}, "dest": {"2001:db8::80"}, "transport": {"tcp"}, "app": {"tls"}, "packets": {"12"}, "dest_port": {"443"}}},
	"record-flow-ping":        {"Network Traffic", fields{"transport": {"icmp"}, "app": {"flow"}, "bytes": {"64"}}},
	"record-ssh":              {"Network Traffic", fields{"transport": {"tcp"}, "app": {"ssh"}, "user": {"ada"}, "url": nil, "query": nil}},
	"record-of-a-trigger":     {"", nil},
	"record-dns-query":        {"Network Resolution", fields{"message_type": {"Query"}, "query": {"a.example"}, "record_type": {"AAAA"}, "transport": {"udp"}, "transaction_id": {"4711"}, "answer_count": {"0"}, "reply_code": {"unknown"}}},
	"record-dns-answers":      {"Network Resolution", fields{"message_type": {"Response"}, "answer": {"198.51.100.1", "198.51.100.2"}, "answer_count": {"2"}, "reply_code": {"No Error"}, "response_time": {"0.0025"}}},
	"record-dns-no-such-name": {"Network Resolution", fields{"message_type": {"Response"}, "reply_code": {"Non-Existent Domain"}, "reply_code_id": {"3"}}},
}

// modelsOf returns the names of the models whose tags an event has.
func modelsOf(tags []string) (names []string) {
	for name, m := range models {
		if !slices.ContainsFunc(m.tags, func(tag string) bool { return !slices.Contains(tags, tag) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// check searches a document and checks the fields of the models to which it belongs. JSON
// null is extracted as a text or not at all, by the version of Splunk: both must give the
// same.
func (a *addon) check(t *testing.T, d document) (fields, []string) {
	t.Helper()
	f, tags, err := a.search(d.raw, d.sourceType, true)
	require.NoError(t, err, d.name)
	without, tagsWithout, err := a.search(d.raw, d.sourceType, false)
	require.NoError(t, err, d.name)
	assert.EqualSlices(t, tags, tagsWithout, d.name, "tags", "if null is no text")
	found := modelsOf(tags)
	for _, name := range found {
		for field, pattern := range models[name].fields {
			assert.EqualSlices(t, f[field], without[field], d.name, field, "if null is no text")
			assert.True(t, len(f[field]) != 0, d.name, field, "is missing for", name)
			for _, v := range f[field] {
				assert.True(t, v != "null" && pattern.MatchString(v), d.name, field, v, "which", name, "does not allow")
			}
		}
	}
	for _, field := range quantities {
		for _, v := range without[field] {
			assert.True(t, quantity.MatchString(v), d.name, field, "is", v, "which is no number")
		}
	}
	f["tag"] = tags
	return f, found
}

func TestEveryKindOfDocumentHasTheFieldsOfItsDataModels(t *testing.T) {
	a := readAddon(t)
	covered := map[string]bool{}
	seen := map[string]bool{}
	for _, d := range documents(t) {
		f, found := a.check(t, d)
		seen[d.name] = true
		for _, name := range found {
			covered[name] = true
		}
		w, given := want[d.name]
		if !given {
			continue
		}
		assert.Equal(t, strings.Join(found, ", "), w.models, d.name, "belongs to")
		for name, values := range w.fields {
			assert.EqualSlices(t, f[name], values, d.name, name, "is")
		}
	}
	for name := range models {
		assert.True(t, covered[name], "no document belongs to", name)
	}
	for name := range want {
		assert.True(t, seen[name], "there is no document", name)
	}
}

// TestDocumentsOfAnAppliance checks what the stand-in generates, with its hazards.
func TestDocumentsOfAnAppliance(t *testing.T) {
	a := readAddon(t)
	hq := standin.New(standin.Options{Seed: 7})
	hq.AddMany(60)
	hq.AddInvalidUTF8()
	hq.AddHuge(20_000)
	hq.AddAudit(60)
	hq.AddRecords(60)
	now := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	counts := map[string]int{}
	check := func(e transform.Event, err error) fields {
		t.Helper()
		require.NoError(t, err)
		f, found := a.check(t, document{e.ID, sourceTypeOf(e), e.Structured()})
		for _, name := range found {
			counts[name]++
		}
		return f
	}
	for _, v := range hq.History() {
		object := bytes.ToValidUTF8(v.JSON, []byte("\uFFFD"))
		d, err := transform.ParseDetection(object, false)
		require.NoError(t, err)
		e, err := encoder.Detection(d, transform.Observation{Recorded: now})
		f := check(e, err)
		severity := e.SeverityWord()
		assert.EqualSlices(t, f["severity"], []string{severity}, "severity", e.ID, "which", severity, "elsewhere")
	}
	for _, entry := range hq.AuditHistory() {
		parsed := require.Value(transform.ParseAuditEntry(entry.JSON, false))(t)
		check(encoder.AuditEntry(parsed, now))
	}
	for _, r := range hq.RecordHistory() {
		check(encoder.Record("all", transform.ParseRecord(r.JSON, false), now))
	}
	for name := range models {
		assert.True(t, counts[name] != 0, "no document belongs to", name, counts)
	}
}

func TestEverySourceTypeHasSettings(t *testing.T) {
	props := readConf(t, "default/props.conf")
	sourceTypes := map[string]bool{}
	for _, stream := range []string{"detection", "audit", "record", "event"} {
		for _, name := range format.Names() {
			sourceType, mode := "ndrbridge:"+stream, "json"
			if name != format.CloudEvents {
				sourceType += ":" + string(name)
			}
			if name.IsText() {
				mode = "none"
			}
			sourceTypes[sourceType] = true
			if props.get(sourceType, "KV_MODE") != mode || props.get(sourceType, "SHOULD_LINEMERGE") != "false" || props.get(sourceType, "INDEXED_EXTRACTIONS") != "" {
				t.Errorf("[%s] %v", sourceType, props[sourceType])
			}
			// The default would cut events of more than 10,000 bytes.
			if bytes, err := strconv.Atoi(props.get(sourceType, "TRUNCATE")); err != nil || bytes < 1_000_000 {
				t.Errorf("[%s] cuts events at %q bytes", sourceType, props.get(sourceType, "TRUNCATE"))
			}
		}
	}
	for stanza := range props {
		assert.True(t, sourceTypes[stanza], "[", stanza, "] is no source type")
	}
}

func TestEveryTagIsOfAnEventTypeAndTheReverse(t *testing.T) {
	a := readAddon(t)
	for stanza := range a.tags {
		name, of := strings.CutPrefix(stanza, "eventtype=")
		_, found := a.eventtypes[name]
		assert.True(t, of && found, "[", stanza, "] in tags.conf is of no event type")
	}
	for name := range a.eventtypes {
		assert.True(t, len(a.tags["eventtype="+name]) != 0, "event type", name, "has no tags")
	}
}

func TestTheFilesOfTheAddonHaveOneNameAndVersion(t *testing.T) {
	app := readConf(t, "default/app.conf")
	text := require.Value(os.ReadFile(filepath.Join(folder, "app.manifest")))(t)
	var manifest struct {
		Info struct {
			ID struct{ Name, Version string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &manifest))
	got := map[string]bool{manifest.Info.ID.Name: true, app.get("package", "id"): true, app.get("id", "name"): true}
	if versions := []string{app.get("id", "version"), app.get("launcher", "version")}; len(got) != 1 || !got[folder] ||
		slices.ContainsFunc(versions, func(v string) bool { return v != manifest.Info.ID.Version }) {
		t.Errorf("names %q, versions %q, manifest %+v", slices.Collect(maps.Keys(got)), versions, manifest)
	}
}
