package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/internal/fixture"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/test/appliance"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// kind is an event for the tests of all formats.
type kind struct {
	name   string
	event  transform.Event
	hazard bool // values that no appliance should send
}

// recorded is the recordedtime of the events.
var recorded = time.Date(2026, time.March, 14, 9, 31, 41, 112e6, time.UTC)

// source of the events; the bridge's own have bridge.
var (
	hq     = transform.Encoder{Appliance: "hq"}
	bridge = transform.Encoder{Appliance: transform.Bridge}
)

// kinds returns events of every kind: every category of detections, operation of audit
// entries, type of records and own event; the detections, entries and records of the
// stand-in appliance; recorded payloads if they are there; and hazards.
func kinds(t testing.TB) []kind {
	t.Helper()
	all := require.Value(allKinds())(t)
	return all
}

// kindNamed returns one of them.
func kindNamed(t testing.TB, name string) transform.Event {
	t.Helper()
	for _, k := range kinds(t) {
		if k.name == name {
			return k.event
		}
	}
	t.Fatalf("there is no event %q", name)
	return transform.Event{}
}

var allKinds = sync.OnceValues(func() ([]kind, error) {
	var c collector
	c.fixtures()
	c.categories()
	c.states()
	c.operations()
	c.recordTypes()
	c.own()
	c.generated()
	c.payloads()
	c.hazard = true
	c.wrongTypes()
	c.oddities()
	return c.kinds, c.err
})

// collector collects events until the first error.
type collector struct {
	kinds  []kind
	hazard bool
	err    error
}

func (c *collector) add(name string, e transform.Event, err error) {
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("%s: %w", name, err)
	}
	c.kinds = append(c.kinds, kind{name, e, c.hazard})
}

func (c *collector) detection(name, object string, o transform.Observation) {
	o.Recorded = recorded
	d, err := transform.ParseDetection([]byte(object), false)
	if err != nil {
		c.add(name, transform.Event{}, err)
		return
	}
	e, err := hq.Detection(d, o)
	c.add(name, e, err)
}

func (c *collector) audit(name, object string) {
	entry, err := transform.ParseAuditEntry([]byte(object), false)
	if err != nil {
		c.add(name, transform.Event{}, err)
		return
	}
	e, err := hq.AuditEntry(entry, recorded)
	c.add(name, e, err)
}

func (c *collector) record(name, object string) {
	e, err := hq.Record("web", transform.ParseRecord([]byte(object), false), recorded)
	c.add(name, e, err)
}

// created is the observation of a detection that is new.
var created = transform.Observation{Created: true}

// fixtures are the examples of docs/events.md.
func (c *collector) fixtures() {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", "internal", "fixture", "objects", name))
		if err != nil && c.err == nil {
			c.err = err
		}
		return string(bytes.TrimSpace(b))
	}
	first := read("detection.json")
	before, err := transform.ParseDetection([]byte(first), false)
	if err != nil && c.err == nil {
		c.err = err
	}
	c.detection("detection/created", first, created)
	c.detection("detection/closed", read("closed.json"), transform.Observation{Before: before.Digested().Tracked, Lifecycle: transform.Lifecycle{
		FirstSeen: before.Created, Acknowledged: 1773480000000, Closed: 1773480413000, Reopened: 1773480100000,
	}})
	c.detection("detection/written back", read("closed.json"), transform.Observation{Before: before.Digested().Tracked, CausedBy: transform.CausedByWriteback})
	c.detection("detection/enriched", first, transform.Observation{Before: before.Digested().Tracked, Repeat: 2, Added: transform.Enrichment{
		Devices: []byte(`[{"id":245,"display_name":"files-3","ipaddr4":"10.3.99.164","ipaddr6":null,"macaddr":"02:74:37:B6:3D:F4","device_class":"node","role":"file_server","vendor":"VMware","software":[],"on_watchlist":false}]`),
		Format:  "Data Exfiltration",
		Link:    "https://sensor.example/#/detections/detail/25769804127",
	}})
	c.detection("detection/small", read("small.json"), transform.Observation{})
	c.audit("audit/modify", read("audit.json"))
	c.record("record/http", read("record.json"))
	for _, kind := range []string{"hidden", "gone", "shown", "noted", "context", "evidence"} {
		e, err := fixture.Event(fixture.Spec{Name: "detection." + kind, Appliance: "hq"})
		c.add("follow-up/"+kind, e, err)
	}
}

// followUp adds a follow-up of a detection.
func (c *collector) followUp(name, object, kind, member, value string) {
	d, err := transform.ParseDetection([]byte(object), false)
	if err != nil {
		c.add(name, transform.Event{}, err)
		return
	}
	e, err := hq.FollowUp(transform.FollowUp{Kind: kind, Key: "1", Detection: d, At: recorded, Name: member, Value: json.RawMessage(value), Recorded: recorded})
	c.add(name, e, err)
}

// detectionObject is a detection that has a value in every field.
const detectionObject = `{"id":25769804127,"start_time":1773473217425,"update_time":1773479105472,"end_time":1773479105472,"title":"Data Exfiltration",
"description":"[files-3](https://sensor.example/#/metrics/devices/4a0f) sent 1.10 GB to a host outside.\n\nFar more than on other days.","risk_score":83,"type":"data_exfiltration",
"recommended":true,"recommended_factors":["top_offender","rare_type"],"categories":["sec","sec.exfil","sec.attack"],
"properties":{"client_port":63855,"server_port":443,"certificate":"dc1.corp.example:RSA_2048:3e42","peers":{"type":"ipaddr","value":["203.0.113.17","2001:db8::17"]},"ports":["SSH:7234","SSH:22"]},
"participants":[
{"id":12,"role":"offender","object_id":25769804021,"object_type":"device","object_value":"10.3.99.164","hostname":"files-3.corp.example","username":"ada","endpoint":"client","external":false,"scanner_service":null,"usernames":["ada","grace"],"origins":["192.0.2.9"]},
{"id":13,"role":"victim","object_id":183,"object_type":"ipaddr","object_value":"203.0.113.17","hostname":"drop.example","username":null,"endpoint":"server","external":true,"scanner_service":"inventory-scan"},
{"id":14,"role":"victim","object_type":"ipaddr","object_value":"2001:db8::17","external":true},
{"id":15,"role":"victim","object_id":17,"object_type":"device","external":false}],
"ticket_id":"SEC-1","ticket_url":"https://tickets.example/SEC-1","assignee":"ada@corp.example","status":"in_progress","resolution":null,
"mitre_tactics":[{"id":"TA0010","name":"Exfiltration","url":"https://attack.mitre.org/tactics/TA0010"},{"id":"TA0011","name":"Command and Control","url":"https://attack.mitre.org/tactics/TA0011"}],
"mitre_techniques":[{"id":"T1048","name":"Exfiltration Over Alternative Protocol","url":"https://attack.mitre.org/techniques/T1048","legacy_ids":["T1048"]},{"id":"T1071.004","name":"DNS","url":"https://attack.mitre.org/techniques/T1071/004"},"T1572"],
"appliance_id":6,"is_user_created":false,"mod_time":1773479898715,"create_time":1773473285359,
"url":"https://sensor.example/service/#/detections/detail/25769804127/?from=1773472300&until=1773480000&interval_type=DT"}`

// members decodes an object whose values are kept as written.
func members(object string) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &m); err != nil {
		panic(err)
	}
	return m
}

// with returns an object with other values of some members: a name and its JSON, or "" to
// remove it, in turns.
func with(object string, namesAndValues ...string) string {
	m := members(object)
	for i := 0; i < len(namesAndValues); i += 2 {
		if delete(m, namesAndValues[i]); namesAndValues[i+1] != "" {
			m[namesAndValues[i]] = json.RawMessage(namesAndValues[i+1])
		}
	}
	return encodeMembers(m)
}

// encodeMembers encodes an object without checking its values.
func encodeMembers(m map[string]json.RawMessage) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", appendText(nil, name), m[name])
	}
	b.WriteByte('}')
	return b.String()
}

// categories are detections of every category, with and without techniques.
func (c *collector) categories() {
	c.detection("detection/whole", detectionObject, created)
	for _, category := range []string{
		"sec", "sec.action", "sec.attack", "sec.botnet", "sec.caution", "sec.command", "sec.cryptomining", "sec.dos", "sec.exfil",
		"sec.exploit", "sec.hardening", "sec.lateral", "sec.ransomware", "sec.recon", "perf", "perf.auth", "perf.db", "perf.network",
		"perf.service", "perf.storage", "perf.virtual", "perf.web", "other.unknown",
	} {
		group, _, _ := strings.Cut(category, ".")
		object := with(detectionObject, "categories", fmt.Sprintf(`[%q,%q]`, group, category), "mitre_tactics", "[]", "mitre_techniques", "[]")
		if group == "perf" {
			object = with(object, "risk_score", "")
		}
		c.detection("detection/category "+category, object, created)
	}
}

// states are detections of every severity and in every state.
func (c *collector) states() {
	for _, score := range []string{"", "null", "0", "1", "30", "30.5", "31", "79", "80", "89", "90", "99", "100"} {
		c.detection("detection/risk score "+score, with(detectionObject, "risk_score", score), created)
		c.detection("detection/risk score "+score+" of performance", with(detectionObject, "risk_score", score, "categories", `["perf","perf.db"]`), created)
	}
	for _, status := range []string{"", "null", `"new"`, `"acknowledged"`, `"in_progress"`, `"closed"`, `"open"`, `"Hidden"`} {
		for _, resolution := range []string{"null", `"action_taken"`, `"no_action_taken"`, `"other"`} {
			object := with(detectionObject, "status", status, "resolution", resolution)
			name := fmt.Sprintf("detection/status %s, resolution %s", status, resolution)
			c.detection(name+", first seen", object, created)
			c.detection(name+", seen before", object, transform.Observation{Before: []byte(`{"status":"new"}`)})
		}
	}
	c.detection("detection/no participants", with(detectionObject, "participants", "[]"), created)
	c.detection("detection/least", `{"id":1,"mod_time":1773479898715}`, created)
	c.detection("detection/ticket_id is a number", with(detectionObject, "ticket_id", "3041"), created)
	c.detection("detection/IPv6", with(detectionObject, "participants", `[{"id":1,"role":"offender","object_type":"ipaddr","object_value":"2001:db8::1"},{"id":2,"role":"victim","object_type":"ipaddr","object_value":"::ffff:192.0.2.7"}]`), created)
}

// operations are audit entries of every operation.
func (c *collector) operations() {
	for i, operation := range []string{
		"Login", "Login failed", "Failed login", "Logout", "Create", "Modify", "Delete", "Generate", "Update", "View", "Download", "Upload", "Restart",
		"Add user", "Reset password", "Shutdown", "Upgrade", "Apply", "Assign", "Enable", "Disable", "Something else",
	} {
		for _, component := range []string{"Authentication", "Users", "User groups", "Dashboards", "API access", "Detections", "System"} {
			c.audit("audit/"+operation+" of "+component, fmt.Sprintf(
				`{"id":%d,"occur_time":1773480412997,"time":1773480413000,"body":{"operation":%q,"component":%q,"details":"Web UI, from 192.0.2.%d","user":"ada","source_ip":"192.0.2.7"}}`,
				1483+i, operation, component, i))
		}
	}
	c.audit("audit/no body", `{"id":1483,"occur_time":1773480412997,"time":1773480413000}`)
	c.audit("audit/no time", `{"id":1484,"body":{"operation":"Login","user":"ada"}}`)
	c.audit("audit/body is a text", `{"id":1485,"time":1773480413000,"body":"ada signed in"}`)
	c.audit("audit/no user", `{"id":1486,"time":1773480413000,"body":{"operation":"Restart","details":"by the system"}}`)
	c.audit("audit/user is an object", `{"id":1487,"time":1773480413000,"body":{"operation":"Login","user":{"name":"ada","id":7}}}`)
}

// endpoints are the fields that records of requests and responses have in common.
const endpoints = `"timestamp":1773480413000.25,"flowId":"35bd956827a059c4","application":["web"],"vlan":12,
"client":{"type":"device","value":["fff41107140a0000"]},"clientAddr":{"type":"ipaddr4","value":"10.3.99.164"},"clientPort":34140,"clientIsExternal":false,"clientZeroWnd":0,
"server":{"type":"device","value":["fff4c3090a0a0000"]},"serverAddr":{"type":"ipaddr4","value":"192.0.2.117"},"serverPort":80,"serverIsExternal":true,"serverZeroWnd":0,
"senderIsExternal":false,"receiverIsExternal":true,"ex":{"isSuspicious":false},
"processingTime":192.560,"roundTripTime":0.245,"reqBytes":1160,"reqL2Bytes":1518,"reqPkts":5,"reqRTO":0,"rspBytes":9007199259631990,"rspL2Bytes":1284,"rspPkts":8,"rspRTO":0`

// sides are the fields of records of one direction.
const sides = `"timestamp":1773480413000.25,"flowId":"35bd956827a059c4","vlan":12,
"sender":{"type":"device","value":["fff41107140a0000"]},"senderAddr":{"type":"ipaddr4","value":"10.3.99.164"},"senderPort":34140,"senderIsExternal":false,
"receiver":{"type":"device","value":["fff4c3090a0a0000"]},"receiverAddr":{"type":"ipaddr6","value":"2001:db8::117"},"receiverPort":443,"receiverIsExternal":true`

// recordSources are the _source objects of records, by type.
var recordSources = map[string][]string{
	"~flow": {
		`{` + sides + `,"clientIsExternal":false,"serverIsExternal":true,"age":61,"bytes":4380,"pkts":32,"proto":"TCP","first":1773480352000.5,"last":1773480413000.25,"dscpName":"CS0","tcpFlags":["SYN","ACK"],"tcpOrigin":null,"roundTripTime":0.25}`,
		`{` + sides + `,"proto":"UDP","bytes":90,"pkts":1,"tcpFlags":18}`,
		`{` + endpoints + `,"proto":"ICMP"}`,
	},
	"~http": {
		`{` + endpoints + `,"method":"POST","host":"intranet.example","uri":"intranet.example/login","query":"from=%2F&x=1","statusCode":302,"userAgent":"Mozilla/5.0 (X11; Linux x86_64)","referer":"http://intranet.example/","contentType":"text/html","rspVersion":"1.1","reqSize":64,"rspSize":0,"origin":"192.0.2.7","title":"Sign in","rspTimeToFirstHeader":233.318,"isSQLi":false,"isXSS":false,"isRspAborted":false}`,
		`{` + endpoints + `,"method":"GET","host":"intranet.example","uri":"/a b|c","statusCode":404}`,
		`{` + endpoints + `,"method":"PROPFIND","host":"intranet.example","uri":"/dav","statusCode":0,"isRspAborted":true}`,
		`{` + endpoints + `,"method":null,"uri":null,"statusCode":null}`,
	},
	"~dns": {
		`{` + endpoints + `,"qname":"drop.example","qtype":"A","opcode":"QUERY","isAuthoritative":false,"isRecursionDesired":true,"isRecursionAvailable":true,"isReqTimeout":false,"isRspTruncated":false,"error":null,"answers":[{"name":"drop.example","type":"A","typeNum":1,"ttl":60,"data":"203.0.113.17"},{"name":"drop.example","type":"CNAME","ttl":60,"data":"a.example"}]}`,
		`{` + endpoints + `,"qname":"none.example","qtype":"AAAA","opcode":"QUERY","error":"NXDOMAIN","answers":[]}`,
		`{` + endpoints + `,"qname":"slow.example","qtype":"TXT","isReqTimeout":true}`,
		`{` + endpoints + `,"qtype":"A","answers":["203.0.113.17"]}`,
	},
	"~dhcp": {
		`{` + endpoints + `,"msgType":"DHCPACK","offeredAddr":{"type":"ipaddr4","value":"10.3.99.164"},"gwAddr":{"type":"ipaddr4","value":"10.3.99.1"},"htype":1,"txId":305419896,"chaddr":"02:74:37:b6:3d:f4","leaseTime":3600,"error":null}`,
		`{` + endpoints + `,"msgType":"DHCPDISCOVER","clientReqDelay":0,"htype":1,"txId":305419896}`,
		`{` + endpoints + `,"msgType":"DHCPNAK","error":"no lease"}`,
	},
	"~rdp": {
		`{` + endpoints + `,"clientBuild":"Windows 10","clientName":"PC-17","cookie":"mstshash=ada","desktopHeight":1080,"desktopWidth":1920,"isEncrypted":true,"keyboardLayout":"German","requestedColorDepth":"32","requestedProtocols":["SSL","HYBRID"],"selectedProtocol":"HYBRID","error":null}`,
		`{` + endpoints + `,"error":"SSL_NOT_ALLOWED_BY_SERVER"}`,
	},
	"~cifs": {
		`{` + endpoints + `,"method":"SMB2_CREATE","resource":"finance\\2026\\plan.xlsx","share":"\\\\files-3\\finance","user":"CORP\\ada","statusCode":"STATUS_SUCCESS","error":null,"isCommandCreate":true,"isCommandDelete":false,"reqSize":120,"reqXfer":0.5,"rspXfer":0.25,"accessTime":1.5,"dialect":"SMB 3.1.1"}`,
		`{` + endpoints + `,"method":"SMB2_READ","resource":"plan.xlsx","isCommandRead":true,"error":"STATUS_ACCESS_DENIED"}`,
		`{` + endpoints + `,"method":"SMB2_LOGOFF"}`,
	},
	"~ssh": {
		`{` + endpoints + `,"clientImplementation":"OpenSSH_9.6","serverImplementation":"OpenSSH_9.2","clientVersion":"SSH-2.0-OpenSSH_9.6","serverVersion":"SSH-2.0-OpenSSH_9.2","kexAlgorithm":"curve25519-sha256","clientCipherAlgorithm":"aes256-gcm@openssh.com","serverCipherAlgorithm":"aes256-gcm@openssh.com","clientMacAlgorithm":"","hasshClient":"ec7378c1a92f5a8dde7e8b7a1ddf33d1","hasshServer":"b12d2871a1189eff20364cf5333619ee","messageNumbers":[20,30,31]}`,
	},
	"~ftp": {
		`{` + endpoints + `,"method":"RETR","args":"plan.txt","cwd":"/","path":"/plan.txt","user":"anonymous","statusCode":226,"transferBytes":4096,"error":null}`,
		`{` + endpoints + `,"method":"STOR","args":"plan.txt","path":"/plan.txt","user":"ada","statusCode":553,"error":"Could not create file."}`,
		`{` + endpoints + `,"method":"PASS","args":"*","user":"anonymous","statusCode":230}`,
	},
	"~smtp": {
		`{` + endpoints + `,"method":"DATA","sender":"ada@corp.example","recipient":"grace@drop.example","recipientList":["grace@drop.example","linus@drop.example"],"domain":"corp.example","statusCode":250,"statusText":"queued","dataSize":20480,"isEncrypted":true,"error":null}`,
		`{` + endpoints + `,"method":"RCPT","sender":"ada@corp.example","recipientList":[],"statusCode":550,"error":"550 no such user"}`,
	},
	"~ntp": {
		`{` + sides + `,"modeName":"client","stratum":2,"version":4,"poll":64,"precision":0.000001,"rootDelay":0.01,"rootDispersion":0.02,"referenceId":1,"referenceIdCode":"GPS","originTimestamp":3982450000.5,"receiveTimestamp":3982450001.5,"transmitTimestamp":3982450002.5,"referenceTimestamp":3982440000.5,"extensionCount":0}`,
		`{` + sides + `,"modeName":"server"}`,
	},
	"~ssl": {
		`{` + endpoints + `,"version":"TLSv1.3","cipherSuite":"TLS_AES_128_GCM_SHA256","host":"intranet.example","certificateSubject":"intranet.example","certificateIssuer":"Corp CA","certificateFingerprint":"aa:bb","certificateNotAfter":1800000000000,"ja3Hash":"e7d705a3286e19ea42f587b344ee6865","isWeakCipherSuite":false,"certificateIsSelfSigned":false}`,
	},
	"~ldap":      {`{` + endpoints + `,"method":"SearchRequest","dn":"dc=corp,dc=example","user":"ada","statusCode":0}`},
	"~kerberos":  {`{` + endpoints + `,"msgType":"AS_REQ","cNames":["ada"],"sNames":["krbtgt"],"realm":"CORP.EXAMPLE","error":null}`},
	"~detection": {`{` + endpoints + `,"detectionId":25769804127,"title":"Data Exfiltration"}`},
	"custom":     {`{"timestamp":1773480413000,"colour":"red","nested":{"a":{"b":[1,2]}}}`},
	"":           {`{"timestamp":1773480413000}`},
}

func recordObject(recordType, source string) string {
	return fmt.Sprintf(`{"_id":"AWc4f228d8","_index":"service-11-2026-3-14-0","_type":%q,"sort":[1773480413000.25],"_source":%s}`, recordType, source)
}

func (c *collector) recordTypes() {
	for _, recordType := range slices.Sorted(maps.Keys(recordSources)) {
		for i, source := range recordSources[recordType] {
			c.record(fmt.Sprintf("record/%s %d", recordType, i+1), recordObject(recordType, source))
		}
	}
	c.record("record/no type", `{"_id":"1","_source":{"timestamp":1773480413000.25,"method":"GET"}}`)
	c.record("record/no source", `{"_id":"2","_type":"~http"}`)
	c.record("record/no id", `{"_type":"~dns","_source":{"qname":"drop.example"}}`)
	c.record("record/empty", `{}`)
}

// own are the bridge's own events.
func (c *collector) own() {
	add := func(name string) func(transform.Event, error) {
		return func(e transform.Event, err error) { c.add("own/"+name, e, err) }
	}
	since := recorded.Add(-47 * time.Second)
	failed := transform.Reachability{Since: since, Failures: 3, Reason: "GET /api/v1/detections/search: connection refused"}
	add("audit.gap")(hq.AuditGap(transform.AuditGap{
		Reason: transform.GapPurged, Last: transform.AuditPosition{ID: 1482, Time: 1773480413000},
		First: transform.AuditPosition{ID: 1910, Time: 1773666813000}, Missing: 427,
	}, recorded))
	add("appliance.unreachable")(hq.Reachability(failed, recorded))
	failed.Reachable, failed.For = true, 9*time.Minute+47*time.Second
	add("appliance.reachable")(hq.Reachability(failed, recorded.Add(9*time.Minute)))
	assignee := "ada"
	command := transform.Ticket{Command: 17, TicketID: "SEC-1", DetectionID: 25769804127, Status: "closed", Resolution: "action_taken", Assignee: &assignee}
	add("ticket.applied")(hq.TicketResult(command, recorded))
	command.Reason = "the appliance answered 404: no detection has the id 25769804127"
	add("ticket.rejected")(hq.TicketResult(command, recorded))
	add("ticket.rejected message")(bridge.MessageRefused(transform.RefusedMessage{
		Message: "stream TICKETS, message 42", Reason: `status: "done" is none of new, in_progress, closed, acknowledged`, Sent: since,
	}, recorded))
	report := transform.TicketReport{Sink: "tickets", TicketID: "SEC-1", URL: "https://tickets.example/SEC-1", DetectionID: 25769804127, Event: "25769804127-1773480412000"}
	add("ticket.opened")(hq.TicketReport(transform.TicketOpened, report, recorded))
	moved := report
	moved.From, moved.To, moved.Assignee, moved.Commented = "To Do", "Done", "a-1", true
	add("ticket.updated")(hq.TicketReport(transform.TicketUpdated, moved, recorded))
	report.Reason = "it is not moved: the issue has no transition \"31\" now"
	add("ticket.conflict")(hq.TicketReport(transform.TicketConflict, report, recorded))
	report.Reason = "the ticket was deleted, or the account may not see it"
	add("ticket.lost")(hq.TicketReport(transform.TicketLost, report, recorded))
	add("sink.skipped")(bridge.SinkSkipped(transform.Skipped{
		Sink: "chat", First: 1201, Last: 1544, Events: 344, Bytes: 761203,
		Oldest: recorded.Add(-8 * time.Hour), Newest: recorded.Add(-6 * time.Hour), Reason: "older than lag.max_age (6h0m0s)",
	}, recorded))
	for _, name := range []string{"rule.created", "rule.updated", "rule.removed", "rule.applied", "rule.rejected", "note.applied", "note.rejected", "blindspot.opened", "blindspot.closed"} {
		add(name)(fixture.Event(fixture.Spec{Name: name, Appliance: "hq"}))
	}
	add("rule.removed, all")(hq.RulesRemoved([]string{"12", "9007199254740993"}, recorded))
	add("sink.test")(bridge.SinkTest("chat", recorded))
	add("heartbeat")(bridge.Heartbeat("1.4.0", recorded.Add(-36*time.Hour), recorded))
}

// generated are objects of the stand-in appliance.
func (c *collector) generated() {
	a := appliance.New(appliance.Options{Seed: 7, Now: func() time.Time { return recorded }})
	for i, v := range a.AddMany(60) {
		c.detection(fmt.Sprintf("stand-in/detection %d", i+1), string(v.JSON), created)
	}
	for i, entry := range a.AddAudit(20) {
		c.audit(fmt.Sprintf("stand-in/audit %d", i+1), string(entry.JSON))
	}
	for i, r := range a.AddRecords(20) {
		c.record(fmt.Sprintf("stand-in/record %d", i+1), string(r.JSON))
	}
}

// payloadFolder has payloads recorded at real appliances, which are not part of the
// repository.
var payloadFolder = filepath.Join("..", "..", "..", "shared", "field")

func (c *collector) payloads() {
	files, _ := filepath.Glob(filepath.Join(payloadFolder, "detections_*.json"))
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil && c.err == nil {
			c.err = err
		}
		i := 0
		for object := range jsonscan.Elements(bytes.TrimSpace(b)) {
			i++
			text := string(object)
			if members(text)["mod_time"] == nil { // of old firmware
				text = with(text, "mod_time", "1673518450000")
			}
			c.detection(fmt.Sprintf("payload/%s %d", filepath.Base(file), i), text, created)
		}
	}
	if b, err := os.ReadFile(filepath.Join(payloadFolder, "auditlog_entry_shape.json")); err == nil {
		c.audit("payload/audit", string(bytes.TrimSpace(b)))
	}
	if b, err := os.ReadFile(filepath.Join(payloadFolder, "records_search.json")); err == nil {
		i := 0
		for object := range jsonscan.Elements(members(string(b))["records"]) {
			i++
			c.record(fmt.Sprintf("payload/record %d", i), string(object))
		}
	}
}
