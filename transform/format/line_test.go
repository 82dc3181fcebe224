package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/siem"
	"ndrbridge/transform"
)

// lineCases are what the tests know about the formats that are lines.
var lineCases = []struct {
	name  Name
	read  func(string) (siem.Document, error)
	types map[string]string
}{
	{CEF, siem.ReadCEF, cefTypes},
	{LEEF, siem.ReadLEEF, leefTypes},
}

// cefTypes are the types of the keys that the tables use, by the implementation standard
// version 27.
var cefTypes = map[string]string{
	"act": "string 63", "app": "string 31", "c6a2": "ipv6_address", "c6a3": "ipv6_address", "cat": "string 1023",
	"cfp1": "double", "cn1": "long", "cs1": "string 4000", "cs2": "string 4000", "cs3": "string 4000", "cs4": "string 4000",
	"cs5": "string 4000", "cs6": "string 4000", "deviceExternalId": "string 255", "deviceFacility": "string 1023", "dhost": "string 1023",
	"dpt": "port", "dst": "ipv4_address", "duser": "string 1023", "end": "timestamp", "externalId": "string 40", "filePath": "string 1023",
	"in": "integer", "msg": "string 1023", "out": "integer", "outcome": "string 63", "proto": "string 31", "reason": "string 1023",
	"request": "string 1023", "requestClientApplication": "string 1023", "requestContext": "string 2048", "requestMethod": "string 1023",
	"rt": "timestamp", "shost": "string 1023", "spt": "port", "src": "ipv4_address", "start": "timestamp", "suser": "string 1023",
}

// leefTypes are the types of the predefined keys that the tables use, and of their own.
var leefTypes = map[string]string{
	"cat": "string", "devTime": "date", "dst": "ip_address", "dstBytes": "long", "dstPackets": "long", "dstPort": "port",
	"identHostName": "string 255", "identSrc": "ip_address", "proto": "keyword", "sev": "level", "src": "ip_address",
	"srcBytes": "long", "srcPackets": "long", "srcPort": "port", "totalPackets": "long", "url": "string", "usrName": "string 255",

	"action": "string", "appliance": "string", "application": "string", "assignee": "string", "causedBy": "string", "cipher": "string",
	"component": "string", "description": "string", "details": "string", "detectionId": "string", "dstHostName": "string",
	"dstUsrName": "string", "endTime": "timestamp", "entryId": "string", "error": "string", "eventId": "string", "eventSource": "string",
	"eventType": "string", "explanation": "string", "filePath": "string", "flowId": "string", "message": "string", "method": "string", "mitreTactics": "string",
	"mitreTechniques": "string", "operation": "string", "outcome": "string", "protocolVersion": "string", "query": "string",
	"queryType": "string", "reason": "string", "recordId": "string", "redelivered": "boolean", "repaired": "boolean", "referer": "string", "resolution": "string", "riskScore": "double",
	"srcHostName": "string", "startTime": "timestamp", "status": "string", "statusCode": "long", "ticketId": "string", "title": "string",
	"unenriched": "string", "userAgent": "string",
}

// encodeLine returns the line of an event in a format.
func encodeLine(t testing.TB, n Name, e transform.Event) string {
	t.Helper()
	c := require.Value(New(n, Options{Version: "1.2.3"}))(t)
	e = c.Encode(e)
	assert.Equal(t, e.ContentType(), "text/plain; charset=utf-8", "the content type is")
	return string(e.Payload())
}

func TestEveryLineIsValidAndLosesNothing(t *testing.T) {
	for _, format := range lineCases {
		c := require.Value(New(format.name, Options{Version: "1.2.3"}))(t)
		for _, k := range kinds(t) {
			line := string(c.Encode(k.event).Payload())
			d, err := format.read(line)
			if err == nil {
				err = checkTypes(d, format.types)
			}
			if err == nil {
				err = checkWhole(d, k.event)
			}
			assert.NoError(t, err, format.name, k.name, line)
		}
	}
}

func FuzzCEF(f *testing.F)  { fuzzLine(f, 0) }
func FuzzLEEF(f *testing.F) { fuzzLine(f, 1) }

func fuzzLine(f *testing.F, format int) {
	streams := []string{"detections", "audit", "records/web", "events"}
	for _, name := range []string{"detection/whole", "detection/a title of everything", "audit/reserved characters", "record/~http 1", "own/reserved characters"} {
		e := kindNamed(f, name)
		for i, stream := range streams {
			if strings.HasSuffix(e.Source, stream) {
				f.Add(uint8(i), e.Data())
			}
		}
	}
	f.Fuzz(func(t *testing.T, stream uint8, data []byte) {
		if !json.Valid(data) || !utf8.Valid(data) {
			t.Skip("events have valid data")
		}
		e := event(t, streams[int(stream)%len(streams)], string(data))
		line := encodeLine(t, lineCases[format].name, e)
		d, err := lineCases[format].read(line)
		if err == nil {
			err = checkTypes(d, lineCases[format].types)
		}
		if err == nil {
			err = checkWhole(d, e)
		}
		assert.NoError(t, err, line, string(data))
	})
}

// checkTypes reports an error if a known key has a value of another type than types
// says: the name of the type, for texts followed by the maximum length.
func checkTypes(d siem.Document, types map[string]string) error {
	for key, value := range d.Keys {
		kind, known := types[key]
		if !known {
			if label := strings.TrimSuffix(key, "Label"); label == key || types[label] == "" {
				if !strings.HasPrefix(key, ownPrefix) {
					return fmt.Errorf("%s is not a known key", key)
				}
			}
			continue
		}
		if !isOfType(kind, value) {
			return fmt.Errorf("%s is not of type %s: %.60q", key, kind, value)
		}
	}
	return nil
}

func isOfType(kind, value string) bool {
	name, size, _ := strings.Cut(kind, " ")
	number, err := strconv.ParseInt(value, 10, 64)
	isNumber := err == nil && strconv.FormatInt(number, 10) == value
	a, addressErr := netip.ParseAddr(value)
	isAddress := addressErr == nil && a.Zone() == ""
	switch name {
	case "string":
		limit, _ := strconv.Atoi(size)
		return limit == 0 || len(value) <= limit
	case "integer":
		return isNumber && math.MinInt32 <= number && number <= math.MaxInt32
	case "port":
		return isNumber && 0 <= number && number <= 65535
	case "long":
		return isNumber
	case "level":
		return isNumber && 1 <= number && number <= 10
	case "timestamp":
		return isNumber && 0 <= number && number < 253402300800000
	case "date": // milliseconds of 13 digits need no format
		return isNumber && len(value) == 13 && number > 0
	case "double":
		f, err := strconv.ParseFloat(value, 64)
		return err == nil && !math.IsInf(f, 0)
	case "ipv4_address":
		return isAddress && a.Is4()
	case "ipv6_address":
		return isAddress && a.Is6()
	case "ip_address":
		return isAddress
	case "boolean":
		return value == "true"
	case "keyword":
		return !strings.ContainsAny(value, " \t")
	}
	return false
}

// checkWhole reports an error if the id or a value of an event's data is not in d.
func checkWhole(d siem.Document, e transform.Event) error {
	found := make(map[string]bool)
	for _, value := range slices.Concat(d.Header, slices.Collect(maps.Values(d.Keys))) {
		found[value] = true
		if strings.ContainsAny(value[:min(1, len(value))], `{["`) {
			collect([]byte(value), found, true)
		} else if strings.Contains(value, ",") {
			for part := range strings.SplitSeq(value, ",") {
				found[part] = true
			}
		}
	}
	for value := range maps.Clone(found) {
		found[canonical(value)] = true
	}
	if !found[e.ID] {
		return fmt.Errorf("the event's id %s is not in the line", e.ID)
	}
	data := make(map[string]bool)
	collect(e.Data(), data, false)
	for value := range data {
		if !found[value] && !found[canonical(value)] {
			return fmt.Errorf("the value %.60q is not in the line", value)
		}
	}
	return nil
}

// collect adds the texts, numbers and booleans of a JSON value, with or without the types
// of a record's fields.
func collect(value []byte, to map[string]bool, types bool) {
	decoder := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	isType := false // the last token was the name type
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return // at the end, or at text that is not JSON
		}
		kind, n := decoder.StackIndex(decoder.StackDepth())
		isName := kind == '{' && n%2 == 1
		switch text := token.String(); token.Kind() {
		case '"', '0', 't', 'f':
			if !isName && !isType && text != "" {
				to[text] = true
			}
			isType = !types && isName && text == "type" && decoder.StackDepth() >= 3
		default:
			isType = false
		}
	}
}

// canonical returns a number or address as it is written most shortly.
func canonical(value string) string {
	if a, err := netip.ParseAddr(value); err == nil {
		return a.String()
	}
	if f, err := strconv.ParseFloat(value, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return value
}

func TestCharactersThatEndAValueAreEscapedInCEF(t *testing.T) {
	e := event(t, "detections", `{"detection":{"type":"a|b","title":"x|y\\z\nw","description":"a=b\\n\r\nc|d","properties":{"k":"e=f\tg"}}}`)
	line := encodeLine(t, CEF, e)
	for _, want := range []string{
		`CEF:0|ndrbridge|ndrbridge|1.2.3|a\|b|x\|y\\z w|Unknown|`,
		` msg=a\=b\\n\r\nc|d `,
		` ndrbridgeTitle=x|y\\z\nw`,
		` ndrbridgePropertiesK="e\=f\\tg"`,
	} {
		assert.Contains(t, line, want)
	}
}

func TestCharactersThatLEEFCannotContainAreReplaced(t *testing.T) {
	e := event(t, "detections", `{"detection":{"type":"a|b\\","title":"x|y\\z\tw","description":"a=b\\n\r\nc|d"}}`)
	line := encodeLine(t, LEEF, e)
	for _, want := range []string{
		"LEEF:2.0|ndrbridge|ndrbridge|1.2.3|a b|0x09|",
		"\ttitle=x|y\\z w\t",
		"\tdescription=a=b\\n  c|d",
		"\tndrbridgeType=a|b\\",
		"\tndrbridgeTitle=\"x|y\\\\z\\tw\"",
		"\tndrbridgeDescription=\"a=b\\\\n\\r\\nc|d\"",
	} {
		assert.Contains(t, line, want)
	}
}

func TestALongTextIsCutAtACharacterAndWholeElsewhere(t *testing.T) {
	long := strings.Repeat("é", 600)
	e := event(t, "detections", `{"detection":{"title":"x`+long+`","id":"`+strings.Repeat("1", 41)+`"}}`)
	for _, format := range lineCases {
		d := require.Value(format.read(encodeLine(t, format.name, e)))(t)
		title := d.Keys["ndrbridgeTitle"]
		if format.name == LEEF {
			title = d.Keys["title"] // which has no limit
		} else if cut := d.Header[4]; cut != "x"+long[:510] {
			t.Errorf("the name has %d bytes: %s", len(cut), cut)
		} else if d.Keys["externalId"] != strings.Repeat("1", 40) || d.Keys["ndrbridgeId"] != strings.Repeat("1", 41) {
			t.Errorf("the id is %s and %s", d.Keys["externalId"], d.Keys["ndrbridgeId"])
		}
		assert.Equal(t, title, "x"+long, format.name, "the whole title has", len(title), "bytes")
	}
}

func TestALeftoverHasTheNameOfItsPath(t *testing.T) {
	for path, want := range map[string]string{
		"recommended_factors": "ndrbridgeRecommendedFactors", "properties.client-port": "ndrbridgePropertiesClientPort",
		"_source.ex": "ndrbridgeEx", "_index": "ndrbridgeIndex", "a.1.b c": "ndrbridgeA1BC", "isSQLi": "ndrbridgeIsSQLi",
		"": "", "ü": "", `a\"b`: "", "a=b": "", strings.Repeat("x", 101): "",
	} {
		if got := ownKey(path); got != want {
			t.Errorf("%q has the key %q, not %q", path, got, want)
		}
	}
	e := event(t, "detections", `{"detection":{"a_b":1,"a.b":[2],"ü":{"x":"\n"},"other":3,"event_type":4}}`)
	for _, format := range lineCases {
		d := require.Value(format.read(encodeLine(t, format.name, e)))(t)
		other := `[{"a.b":[2]},{"ü":{"x":"\n"}},{"other":3}`
		if format.name == CEF {
			other += `,{"event_type":4}` // ndrbridgeEventType is the event's
		}
		if d.Keys["ndrbridgeAB"] != "1" || d.Keys["ndrbridgeOther"] != other+"]" {
			t.Errorf("%s: the leftovers are %s and %s", format.name, d.Keys["ndrbridgeAB"], d.Keys["ndrbridgeOther"])
		}
	}
}

func TestAListWhoseTextsHaveCommasIsWholeElsewhere(t *testing.T) {
	for _, format := range lineCases {
		for list, want := range map[string]string{
			`["a","b"]`: "", `["a,b"]`: `["a,b"]`, `["a\u002cb"]`: `["a\u002cb"]`, `["x","a\u002Cb"]`: `["x","a\u002Cb"]`,
		} {
			d, err := format.read(encodeLine(t, format.name, event(t, "detections", `{"detection":{"categories":`+list+`}}`)))
			require.NoError(t, err)
			if got := d.Keys["ndrbridgeCategories"]; got != want {
				t.Errorf("%s: of %s, the whole is %s, not %s", format.name, list, got, want)
			}
		}
	}
}

// A redelivered event has the id of the first one, and may be older than what came before.
func TestALineShowsThatItsEventWasRedeliveredOrChanged(t *testing.T) {
	for _, format := range lineCases {
		e := event(t, "detections", `{"detection":{"id":1}}`)
		keys := []string{"ndrbridgeRedelivered", "ndrbridgeRepaired", "ndrbridgeUnenriched"}
		if format.name == LEEF {
			keys = []string{"redelivered", "repaired", "unenriched"}
		}
		for _, want := range [][]string{{"", "", ""}, {"true", "true", "devices"}} {
			if want[0] != "" {
				e.Redelivered, e.Repaired, e.Unenriched = true, true, "devices"
			}
			d := require.Value(format.read(encodeLine(t, format.name, e)))(t)
			for i, key := range keys {
				if d.Keys[key] != want[i] {
					t.Errorf("%s is %q, not %q", key, d.Keys[key], want[i])
				}
			}
		}
	}
}

func TestALeftoverThatCouldBeTakenForJSONIsQuoted(t *testing.T) {
	e := event(t, "detections", `{"detection":{"a":"plain = text","b":"\"quoted\"","c":"{1}","d":" space","e":"[x","f":true,"g":1.50}}`)
	for _, format := range lineCases {
		d := require.Value(format.read(encodeLine(t, format.name, e)))(t)
		for key, want := range map[string]string{
			"A": "plain = text", "B": `"\"quoted\""`, "C": `"{1}"`, "D": `" space"`, "E": `"[x"`, "F": "true", "G": "1.50",
		} {
			if got := d.Keys[ownPrefix+key]; got != want {
				t.Errorf("%s: %s is %s, not %s", format.name, key, got, want)
			}
		}
	}
}

func TestPortsBelongToTheParticipantWithTheEndpoint(t *testing.T) {
	for _, test := range []struct{ offender, victim, source, destination string }{
		{`"client"`, `"server"`, "50000", "443"},
		{`"server"`, `"client"`, "443", "50000"},
		{`"client"`, "null", "50000", ""},
		{`"sender"`, `"receiver"`, "", ""},
	} {
		e := event(t, "detections", fmt.Sprintf(`{"detection":{"participants":[{"role":"offender","endpoint":%s},{"role":"victim","endpoint":%s}],
			"properties":{"client_port":50000,"server_port":443}}}`, test.offender, test.victim))
		d := require.Value(siem.ReadCEF(encodeLine(t, CEF, e)))(t)
		if d.Keys["spt"] != test.source || d.Keys["dpt"] != test.destination {
			t.Errorf("%s and %s: the ports are %q and %q", test.offender, test.victim, d.Keys["spt"], d.Keys["dpt"])
		}
	}
}

func TestSeveritiesOfLines(t *testing.T) {
	for _, test := range []struct{ kind, cef, leef string }{
		{"detection/risk score null", "Unknown", "1"},
		{"detection/risk score 0", "Unknown", "1"},
		{"detection/risk score 30", "3", "3"},
		{"detection/risk score 31", "6", "6"},
		{"detection/risk score 80", "8", "8"},
		{"detection/risk score 90", "10", "10"},
		{"detection/risk score 99 of performance", "6", "6"},
		{"audit/modify", "3", "3"},
		{"record/http", "1", "1"},
		{"own/heartbeat", "3", "1"},
		{"own/sink.skipped", "6", "6"},
	} {
		e := kindNamed(t, test.kind)
		c := require.Value(siem.ReadCEF(encodeLine(t, CEF, e)))(t)
		l := require.Value(siem.ReadLEEF(encodeLine(t, LEEF, e)))(t)
		if c.Header[5] != test.cef || l.Keys["sev"] != test.leef {
			t.Errorf("%s: the severity is %s in CEF and %s in LEEF", test.kind, c.Header[5], l.Keys["sev"])
		}
	}
}

// TestLinesOfEachKind compares the lines with those in testdata. UPDATE=1 writes them.
func TestLinesOfEachKind(t *testing.T) {
	for _, format := range lineCases {
		var b strings.Builder
		byName := func(a, b kind) int { return strings.Compare(a.name, b.name) }
		for _, k := range slices.SortedFunc(slices.Values(kinds(t)), byName) {
			group, _, _ := strings.Cut(k.name, "/")
			if k.hazard != slices.Contains(goldenHazards, k.name) || group == "stand-in" || group == "payload" || !isGolden(k.name) {
				continue
			}
			fmt.Fprintf(&b, "# %s\n%s\n", k.name, encodeLine(t, format.name, k.event))
		}
		file := filepath.Join("testdata", string(format.name)+".txt")
		if os.Getenv("UPDATE") != "" {
			require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o666))
			continue
		}
		want := require.Value(os.ReadFile(file))(t)
		lines := strings.Split(strings.TrimSuffix(string(want), "\n"), "\n")
		require.True(t, len(lines) >= 100, file, "has only", len(lines), "lines")
		for i := 0; i+1 < len(lines); i += 2 {
			name := strings.TrimPrefix(lines[i], "# ")
			if got := encodeLine(t, format.name, kindNamed(t, name)); got != lines[i+1] {
				t.Errorf("%s:%d: %s is not as expected; if it is right, run UPDATE=1 go test ./transform/format\n%s", file, i+2, name, got)
			}
		}
	}
}

// goldenHazards are hazards whose lines are in testdata, where the end-to-end tests read
// them with other parsers.
var goldenHazards = []string{
	"detection/a title of everything", "detection/all values are control characters", "detection/all values are line breaks",
	"detection/all values are reserved characters", "detection/ports as texts", "detection/names with odd characters",
	"audit/reserved characters", "record/~http: reserved characters", "record/~dns: IPv6 and mapped", "own/reserved characters",
}

// isGolden reports whether the line of an event is in testdata: one of each kind.
func isGolden(name string) bool {
	return !strings.HasPrefix(name, "detection/risk score") && !strings.HasPrefix(name, "detection/status") &&
		!strings.HasPrefix(name, "detection/category") && (!strings.HasPrefix(name, "audit/") || strings.HasSuffix(name, " of Users") ||
		!strings.Contains(name, " of "))
}

// TestKeysAreThoseOfTheStandards compares the types and lengths in this package with
// tables made from the standards, which are not part of the repository.
func TestKeysAreThoseOfTheStandards(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "shared", "formats")
	var cef struct {
		Extensions []struct {
			Key, Type string
			Length    any
		}
	}
	var leef struct {
		Attributes []struct{ Key, Type, Limits string }
	}
	for file, to := range map[string]any{"cef/cef-extensions.json": &cef, "leef/leef-attributes.json": &leef} {
		b, err := os.ReadFile(filepath.Join(folder, file))
		if os.IsNotExist(err) {
			t.Skip("the tables are not here; the types are checked by TestEveryLineIsValidAndLosesNothing all the same")
		}
		if err == nil {
			err = json.Unmarshal(b, to)
		}
		require.NoError(t, err)
	}
	standard := map[string]string{"c6a2": "ipv6_address"} // which is only in the standard's text
	for _, e := range cef.Extensions {
		switch {
		case e.Type == "string" && e.Length != nil:
			standard[e.Key] = fmt.Sprintf("string %v", e.Length)
		case e.Key == "spt" || e.Key == "dpt":
			standard[e.Key] = "port"
		default:
			standard[e.Key] = e.Type
		}
	}
	for key, kind := range cefTypes {
		if standard[key] != kind {
			t.Errorf("the CEF key %s is of type %s, not %s", key, standard[key], kind)
		}
	}
	for _, a := range leef.Attributes {
		kind, used := leefTypes[a.Key]
		want := map[string]string{"integer": "long", "integer_or_keyword": "keyword", "string": strings.TrimSpace("string " + a.Limits)}[a.Type]
		switch a.Limits {
		case "0 - 65535":
			want = "port"
		case "1-10":
			want = "level"
		}
		if want == "" {
			want = a.Type
		}
		if used && kind != want {
			t.Errorf("the LEEF key %s is of type %s, not %s", a.Key, want, kind)
		}
	}
}

func TestLengthsAreThoseOfTheTypes(t *testing.T) {
	check := func(lengths map[string]int, types map[string]string, header ...string) {
		for key, kind := range types {
			name, size, _ := strings.Cut(kind, " ")
			if limit, _ := strconv.Atoi(size); name == "string" && lengths[key] != limit {
				t.Errorf("%s is cut after %d bytes, not %d", key, lengths[key], limit)
			}
		}
		for key := range lengths {
			if types[key] == "" && !slices.Contains(header, key) {
				t.Errorf("no table uses the key %s", key)
			}
		}
	}
	check(newReader(Options{}, "lines", "cef").lengths, cefTypes, "Device Vendor", "Device Product", "Device Version", "Device Event Class ID", "Name")
	check(newReader(Options{}, "lines", "leef").lengths, leefTypes, "EventID")
}
