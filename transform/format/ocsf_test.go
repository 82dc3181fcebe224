package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// schemaFolder has the official schema, which is not part of the repository.
var schemaFolder = filepath.Join("..", "..", "..", "shared", "formats", "ocsf")

// officialOCSF returns the official schema, or skips the test if it is not there.
func officialOCSF(t testing.TB) (*jsonschema.Schema, ocsfSchema) {
	t.Helper()
	bundle := filepath.Join(schemaFolder, "ocsf-1.8.0-bundle.schema.json")
	if _, err := os.Stat(bundle); err != nil {
		t.Skipf("the official schema is not there: %v", err)
	}
	schema := require.Value(jsonschema.NewCompiler().Compile(bundle))(t)
	return schema, readOCSF(t, filepath.Join(schemaFolder, "ocsf-1.8.0-table.json"))
}

// ocsfSchema lists the attributes of classes and objects, by name.
type ocsfSchema struct {
	Types map[string]struct {
		Type   string `json:"type"`
		Regex  string `json:"regex"`
		MaxLen int    `json:"max_len"`
		Range  []int  `json:"range"`
		regex  *regexp.Regexp
	} `json:"types"`
	Classes map[string]*ocsfObject `json:"classes"`
	Objects map[string]*ocsfObject `json:"objects"`
}

type ocsfObject struct {
	UID         int                      `json:"uid"`
	Attributes  map[string]ocsfAttribute `json:"attributes"`
	Constraints map[string][]string      `json:"constraints"`
}

type ocsfAttribute struct {
	Type       string            `json:"t"`
	Object     string            `json:"o"`
	IsArray    bool              `json:"a"`
	Need       string            `json:"q"` // req, rec
	Enum       map[string]string `json:"e"` // captions
	Sibling    string            `json:"s"`
	Profiles   []string          `json:"p"`
	Deprecated string            `json:"d"`
}

func readOCSF(t testing.TB, file string) ocsfSchema {
	t.Helper()
	b := require.Value(os.ReadFile(file))(t)
	var s ocsfSchema
	require.NoError(t, json.Unmarshal(b, &s))
	for name, of := range s.Types {
		if of.Regex != "" {
			of.regex = regexp.MustCompile(of.Regex)
			s.Types[name] = of
		}
	}
	return s
}

// check returns what is wrong with a document.
func (s ocsfSchema) check(document map[string]any) (wrong []string) {
	id, name := fmt.Sprint(document["class_uid"]), ""
	for of, class := range s.Classes {
		if fmt.Sprint(class.UID) == id {
			name = of
		}
	}
	if name == "" {
		return []string{"unknown class " + id}
	}
	number := func(field string) float64 {
		n, _ := document[field].(json.Number)
		f, err := n.Float64()
		if err != nil {
			return math.NaN()
		}
		return f
	}
	if number("type_uid") != 100*number("class_uid")+number("activity_id") {
		wrong = append(wrong, fmt.Sprintf("type_uid is %v, class_uid %v, activity_id %v", document["type_uid"], document["class_uid"], document["activity_id"]))
	}
	var profiles []string
	if metadata, ok := document["metadata"].(map[string]any); ok {
		list, _ := metadata["profiles"].([]any)
		for _, profile := range list {
			profiles = append(profiles, fmt.Sprint(profile))
		}
	}
	return append(wrong, s.object("", document, s.Classes[name], profiles)...)
}

func (s ocsfSchema) object(path string, object map[string]any, of *ocsfObject, profiles []string) (wrong []string) {
	add := func(name, format string, args ...any) {
		wrong = append(wrong, path+name+" "+fmt.Sprintf(format, args...))
	}
	hasProfile := func(a ocsfAttribute) bool {
		return len(a.Profiles) == 0 || slices.ContainsFunc(a.Profiles, func(p string) bool { return slices.Contains(profiles, p) })
	}
	for name, a := range of.Attributes {
		if a.Need == "req" && object[name] == nil && hasProfile(a) {
			add(name, "is required")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := object[name]
		a, found := of.Attributes[name]
		switch {
		case !found:
			add(name, "is no attribute")
			continue
		case !hasProfile(a):
			add(name, "needs one of the profiles %v", a.Profiles)
		case a.Deprecated != "":
			add(name, "is deprecated since %s", a.Deprecated)
		}
		if a.Sibling != "" && object[a.Sibling] != nil && !a.IsArray {
			caption := a.Enum[fmt.Sprint(value)]
			// A status that is acknowledged is in progress, and says so in more detail.
			if got := object[a.Sibling]; got != caption && fmt.Sprint(value) != "99" && got != "Acknowledged" {
				add(a.Sibling, "is %v, but %s is %v, %s", got, name, value, caption)
			}
		}
		values := []any{value}
		if list, isList := value.([]any); a.IsArray {
			if !isList {
				add(name, "is no array")
				continue
			}
			values = list
		}
		for i, value := range values {
			at := name
			if a.IsArray {
				at += "[" + strconv.Itoa(i) + "]"
			}
			if a.Object != "" && a.Object != "object" {
				inner, isObject := value.(map[string]any)
				if !isObject {
					add(at, "is no object")
				} else if wanted := s.Objects[a.Object]; wanted == nil {
					add(at, "has the unknown type %s", a.Object)
				} else {
					wrong = append(wrong, s.object(path+at+".", inner, wanted, profiles)...)
				}
				continue
			}
			if reason := s.scalar(a, value); reason != "" {
				add(at, "is %.100v: %s", value, reason)
			}
		}
	}
	for kind, names := range of.Constraints {
		present := 0
		for _, name := range names {
			if object[name] != nil {
				present++
			}
		}
		if kind == "at_least_one" && present == 0 || kind == "just_one" && present != 1 {
			wrong = append(wrong, fmt.Sprintf("%s%s of %v, but %d", path, kind, names, present))
		}
	}
	return wrong
}

// scalar returns what is wrong with a value that is no object of the schema.
func (s ocsfSchema) scalar(a ocsfAttribute, value any) string {
	of := s.Types[a.Type]
	base := a.Type
	for s.Types[base].Type != "" {
		base = s.Types[base].Type
	}
	switch base {
	case "json_t", "object_t":
		return ""
	case "string_t":
		text, ok := value.(string)
		switch {
		case !ok:
			return "not a string"
		case of.regex != nil && !of.regex.MatchString(text):
			return "not of the form of " + a.Type
		case of.MaxLen > 0 && len(text) > of.MaxLen:
			return "too long for " + a.Type
		}
	case "integer_t", "long_t":
		n, ok := value.(json.Number)
		i, err := n.Int64()
		switch {
		case !ok || err != nil:
			return "not an integer"
		case of.Range != nil && (i < int64(of.Range[0]) || i > int64(of.Range[1])):
			return "outside the range of " + a.Type
		}
	case "float_t":
		if _, ok := value.(json.Number); !ok {
			return "not a number"
		}
	case "boolean_t":
		if _, ok := value.(bool); !ok {
			return "not a boolean"
		}
	default:
		return "of the unknown type " + a.Type
	}
	if len(a.Enum) > 0 {
		if _, found := a.Enum[fmt.Sprint(value)]; !found {
			return "not one of the list"
		}
	}
	return ""
}

// ocsfDocument decodes the document of an event.
func ocsfDocument(t testing.TB, c *Encoder, e transform.Event) map[string]any {
	t.Helper()
	document := c.Encode(e).Payload()
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	require.NoError(t, err, "in", string(document))
	return decoded.(map[string]any)
}

func ocsfEncoder(t testing.TB) *Encoder {
	t.Helper()
	c := require.Value(New(OCSF, Options{Version: "1.4.0"}))(t)
	return c
}

// baseEvent is class 0, of which the official bundle has no schema: the attributes that all
// classes have.
func baseEvent(s ocsfSchema) *ocsfObject {
	base := &ocsfObject{Attributes: make(map[string]ocsfAttribute)}
	for _, name := range []string{
		"activity_id", "activity_name", "category_name", "class_name", "message", "metadata", "severity", "severity_id",
		"time", "type_name", "unmapped",
	} {
		base.Attributes[name] = s.Classes["detection_finding"].Attributes[name]
	}
	activity := base.Attributes["activity_id"]
	activity.Enum = map[string]string{"0": "Unknown", "99": "Other"}
	base.Attributes["activity_id"] = activity
	base.Attributes["category_uid"] = ocsfAttribute{Type: "integer_t", Need: "req", Sibling: "category_name", Enum: map[string]string{"0": "Uncategorized"}}
	base.Attributes["class_uid"] = ocsfAttribute{Type: "integer_t", Need: "req", Sibling: "class_name", Enum: map[string]string{"0": "Base Event"}}
	base.Attributes["type_uid"] = ocsfAttribute{Type: "long_t", Need: "req", Sibling: "type_name", Enum: map[string]string{"0": "Base Event: Unknown", "99": "Base Event: Other"}}
	return base
}

// usedOCSF is the part of the schema that the tables use.
func usedOCSF(t testing.TB) ocsfSchema {
	t.Helper()
	s := readOCSF(t, filepath.Join("testdata", "ocsf-1.8.0-used.json"))
	s.Classes["base_event"] = baseEvent(s)
	return s
}

func TestOCSFDocumentsAreValid(t *testing.T) {
	schema := usedOCSF(t)
	c := ocsfEncoder(t)
	for _, k := range kinds(t) {
		document := ocsfDocument(t, c, k.event)
		if wrong := schema.check(document); len(wrong) > 0 {
			t.Errorf("%s: %s\n%.1500s", k.name, strings.Join(wrong, "\n"), c.Encode(k.event).Payload())
		}
		if metadata := document["metadata"].(map[string]any); metadata["uid"] != k.event.ID {
			t.Errorf("%s: metadata.uid is %v", k.name, metadata["uid"])
		}
	}
}

func TestOCSFDocumentsAreValidByTheOfficialSchema(t *testing.T) {
	schema, table := officialOCSF(t)
	table.Classes["base_event"] = baseEvent(table)
	c := ocsfEncoder(t)
	for _, k := range kinds(t) {
		document := ocsfDocument(t, c, k.event)
		wrong := table.check(document)
		if document["class_uid"] != json.Number("0") {
			if err := schema.Validate(document); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
		if len(wrong) > 0 {
			t.Errorf("%s: %s\n%.1500s", k.name, strings.Join(wrong, "\n"), c.Encode(k.event).Payload())
		}
	}
}

func TestTheSchemaInTestdataIsThatOfOCSF(t *testing.T) {
	_, official := officialOCSF(t)
	used := readOCSF(t, filepath.Join("testdata", "ocsf-1.8.0-used.json"))
	compare := func(kind string, used, official map[string]*ocsfObject) {
		for name, object := range used {
			whole := official[name]
			if whole == nil {
				t.Errorf("%s %s is none of OCSF", kind, name)
				continue
			}
			for attribute, a := range object.Attributes {
				want := whole.Attributes[attribute]
				if a.Type != want.Type || a.Object != want.Object || a.IsArray != want.IsArray || (a.Need == "req") != (want.Need == "req") || !maps.Equal(a.Enum, want.Enum) {
					t.Errorf("%s %s: %s is %v, but %v in OCSF", kind, name, attribute, a, want)
				}
			}
			for attribute, a := range whole.Attributes {
				if _, found := object.Attributes[attribute]; !found && a.Need == "req" && len(a.Profiles) == 0 {
					t.Errorf("%s %s: %s is required in OCSF", kind, name, attribute)
				}
			}
		}
	}
	compare("class", used.Classes, official.Classes)
	compare("object", used.Objects, official.Objects)
}

// The check itself must find mistakes.
func TestTheCheckOfOCSFFindsMistakes(t *testing.T) {
	schema := usedOCSF(t)
	for name, test := range map[string]struct {
		change func(document, metadata map[string]any)
		want   string
	}{
		"a class that is none":           {func(d, _ map[string]any) { d["class_uid"] = json.Number("2") }, "unknown class 2"},
		"a type of another activity":     {func(d, _ map[string]any) { d["activity_id"] = json.Number("1") }, "type_uid is 200402"},
		"an unknown attribute":           {func(d, _ map[string]any) { d["colour"] = "red" }, "colour is no attribute"},
		"a missing attribute":            {func(_, m map[string]any) { delete(m, "version") }, "metadata.version is required"},
		"a missing profile":              {func(_, m map[string]any) { delete(m, "profiles") }, "assignee needs one of the profiles"},
		"a text that is a number":        {func(d, _ map[string]any) { d["message"] = json.Number("1") }, "message is 1: not a string"},
		"a number that is a text":        {func(d, _ map[string]any) { d["time"] = "1" }, "time is 1: not an integer"},
		"a number that is none of list":  {func(d, _ map[string]any) { d["severity_id"] = json.Number("7") }, "severity_id is 7: not one of the list"},
		"a caption of another number":    {func(d, _ map[string]any) { d["severity"] = "Low" }, "severity is Low"},
		"an object without what it must": {func(d, _ map[string]any) { d["tickets"] = []any{map[string]any{"title": "x"}} }, "tickets[0]."},
		"an address that is none": {func(d, _ map[string]any) {
			d["evidences"] = []any{map[string]any{"src_endpoint": map[string]any{"ip": "x"}}}
		}, "evidences[0].src_endpoint.ip is x: not of the form of ip_t"},
		"no array": {func(d, _ map[string]any) { d["observables"] = "x" }, "observables is no array"},
	} {
		t.Run(name, func(t *testing.T) {
			document := ocsfDocument(t, ocsfEncoder(t), kindNamed(t, "detection/whole"))
			test.change(document, document["metadata"].(map[string]any))
			assert.Contains(t, strings.Join(schema.check(document), "\n"), test.want, "the check finds")
		})
	}
}

func TestNoValueOfAnEventIsLostInOCSF(t *testing.T) {
	c := ocsfEncoder(t)
	for _, k := range kinds(t) {
		document := c.Encode(k.event).Payload()
		found := scalars(document)
		all := strings.Join(slices.Collect(maps.Keys(found)), "\n")
		for value := range scalars(k.event.Data()) {
			if value == "" || found[value] || strings.Contains(all, value) {
				continue
			}
			if encoded, _ := json.Marshal(value); strings.Contains(all, strings.Trim(string(encoded), `"`)) {
				continue // in a string of JSON
			}
			switch value {
			case "new", "in_progress", "acknowledged", "closed", "client", "server": // New, In Progress
			case "DHCPACK", "DHCPNAK", "DHCPDISCOVER", "TCP", "UDP", "ICMP", "SYN", "ACK": // Ack, tcp, a bit
			case "device", "ipaddr4", "ipaddr6", "string": // the type beside a value
			case "80.0", "83.0", "2001:DB8::1": // 80, 83, 2001:db8::1
			case "prod1.example.com/j_acegi_security_check", "intranet.example/login": // host and path
			default:
				t.Errorf("%s: %.200q is not in the document", k.name, value)
			}
		}
	}
}

// FuzzOCSF encodes any object as a detection, an audit entry, a record and an own event.
func FuzzOCSF(f *testing.F) {
	for _, k := range kinds(f) {
		if len(k.event.Data()) < 4000 && (!k.hazard || len(k.name)%7 == 0) {
			for name, value := range jsonscan.Members(k.event.Data()) {
				f.Add(string(name), k.event.Subject, string(value))
			}
		}
	}
	schema, c := usedOCSF(f), ocsfEncoder(f)
	f.Fuzz(func(t *testing.T, stream, subject, object string) {
		if !jsontext.Value(object).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(false)) {
			return
		}
		key, path := "detection", "detections"
		switch stream {
		case "audit":
			key, path = "audit", "audit"
		case "record":
			key, path = "record", "records/web"
		case "ticket":
			key, path = "ticket", "events"
		}
		e, err := transform.New(transform.Attributes{
			ID: "1", Source: "ndrbridge://hq/" + path, Type: "io.ndrbridge.detection.created", Subject: subject, Appliance: "hq", RecordedTime: recorded,
		}, []byte(`{"`+key+`":`+object+`}`))
		if err != nil {
			return
		}
		if wrong := schema.check(ocsfDocument(t, c, e)); len(wrong) > 0 {
			t.Errorf("%s\n%s", strings.Join(wrong, "\n"), c.Encode(e).Payload())
		}
	})
}

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
		assert.Equal(t, string(lookup(document, path)), value, path, "is")
	}
}

// shownVersion is the version of the bridge in testdata.
const shownVersion = "1.4.0"

// TestDocumentsOfEachKindInOCSF compares the document of the first event of each kind with that
// in testdata. UPDATE=1 writes them.
func TestDocumentsOfEachKindInOCSF(t *testing.T) {
	c := require.Value(New(OCSF, Options{Version: shownVersion}))(t)
	for i, p := range c.plans {
		all := kinds(t)
		first := slices.IndexFunc(all, func(k kind) bool {
			return !k.hazard && !strings.HasPrefix(k.name, "payload/") && c.planOf(&k.event) == p
		})
		if first < 0 {
			t.Errorf("no event of the tests is of the kind %s", p.name)
			continue
		}
		got := jsontext.Value(c.Encode(all[first].event).Payload())
		require.NoError(t, got.Indent())
		got = append(got, '\n')
		name := strings.NewReplacer(" (", "-", ")", "", " ", "-").Replace(strings.ToLower(p.name))
		file := filepath.Join("testdata", "ocsf", fmt.Sprintf("%02d-%s.json", i+1, name))
		if os.Getenv("UPDATE") != "" {
			require.NoError(t, os.WriteFile(file, got, 0o644))
		}
		want := require.Value(os.ReadFile(file))(t)
		assert.True(t, bytes.Equal(got, want), file, "run UPDATE=1 go test ./transform/format if this is right", string(got))
	}
}
