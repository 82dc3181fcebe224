package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// event returns an event of a stream, such as detections, with this data.
func event(t testing.TB, stream, data string) transform.Event {
	t.Helper()
	e, err := transform.New(transform.Attributes{
		ID: "7-1700000000000", Source: "ndrbridge://hq/" + stream, Type: "io.ndrbridge.detection.created", Subject: "7",
		Time: time.UnixMilli(1700000000000), Appliance: "hq", SeverityNumber: 9, RecordedTime: time.UnixMilli(1700000001000),
	}, []byte(data))
	require.NoError(t, err)
	return e
}

// encode returns the document of an event by one table.
func encode(t testing.TB, by table, e transform.Event) string {
	t.Helper()
	c := newEncoder("application/json", []table{by}, (*plan).appendDocument)
	document := c.Encode(e).Payload()
	if err := jsontext.NewDecoder(bytes.NewReader(document)).SkipValue(); err != nil {
		t.Fatalf("the document is not valid JSON with unique names: %v\n%s", err, document)
	}
	return string(document)
}

func TestARowBecomesAField(t *testing.T) {
	participants := `[{"role":"victim","ip":"10.0.0.1"},{"role":"offender","ip":"10.0.0.2","host":"b"},{"role":"offender","ip":"10.0.0.1","host":null}]`
	for _, test := range []struct {
		name, data string
		rows       []row
		want       string
	}{
		{"a value of the data", `{"detection":{"title":"x"}}`, []row{{"a", from("detection.title"), text}}, `{"a":"x"}`},
		{"fields of one object together", `{"detection":{"a":1,"b":2,"c":3}}`, []row{
			{"x.y.a", from("detection.a"), integer}, {"z", from("detection.c"), integer}, {"x.b", from("detection.b"), integer},
		}, `{"x":{"b":2,"y":{"a":1}},"z":3}`},
		{"an object only if one of its marked fields is present", `{"detection":{"a":1,"b":2}}`, []row{
			{"x.b", from("detection.b"), integer}, {"x.c!", from("detection.c"), integer}, {"x.d!", from("detection.d"), integer}, {"x.y.b", from("detection.b"), integer},
			{"z.b", from("detection.b"), integer}, {"z.y.a!", from("detection.a"), integer}, {"z.y.b", from("detection.b"), integer}, {"z.y.c!", from("detection.c"), integer},
		}, `{"z":{"b":2,"y":{"a":1,"b":2}}}`},
		{"a field instead of others", `{"detection":{"a":1,"b":2}}`, []row{
			{"x.n?", from("=unknown"), text}, {"x.c!", from("detection.c"), integer}, {"x.b", from("detection.b"), integer},
			{"y.n?", from("=unknown"), text}, {"y.a!", from("detection.a"), integer},
		}, `{"x":{"n":"unknown","b":2},"y":{"a":1}}`},
		{"constants", `{}`, []row{{"a", from("=x"), text}, {"b", from("=#7"), integer}}, `{"a":"x","b":7}`},
		{"attributes", `{}`, []row{
			{"id", from("event.id"), text}, {"at", from("event.when"), timestamp}, {"who", from("event.appliance"), text},
		}, `{"at":"2023-11-14T22:13:20.000Z","id":"7-1700000000000","who":"hq"}`},
		{"the first source that is present and fits", `{"audit":{"a":null,"b":"x","c":3,"d":4}}`, []row{
			{"n", from("audit.a", "audit.b", "audit.c", "audit.d"), integer},
		}, `{"n":3,"rest":{"b":"x","d":4}}`},
		{"an array of several sources", `{"record":{"b":"10.0.0.2"}}`, []row{{"ips", from("record.a + record.b"), each(address)}}, `{"ips":["10.0.0.2"]}`},
		{"the first element with a role", `{"detection":{"participants":` + participants + `}}`, []row{
			{"p", from("detection.participants"), raw}, {"ip", from("detection.participants[role=offender].ip"), address},
		}, `{"ip":"10.0.0.2","p":` + participants + `}`},
		{"a value of all elements, each once", `{"detection":{"participants":` + participants + `}}`, []row{
			{"p", from("detection.participants"), raw}, {"ips", from("detection.participants[].ip"), each(address)},
		}, `{"ips":["10.0.0.1","10.0.0.2"],"p":` + participants + `}`},
		{"a record's field with its type", `{"record":{"_source":{"clientAddr":{"type":"ipaddr4","value":"10.0.0.1"}}}}`, []row{
			{"ip", from("record._source.clientAddr"), address},
		}, `{"ip":"10.0.0.1"}`},
		{"only a record's fields have their types beside them", `{"detection":{"n":{"type":"x","value":7}},"record":{"n":{"type":{"x":1},"value":7}}}`, []row{
			{"d", from("detection.n"), integer}, {"r", from("record.n"), integer},
		}, `{"rest":{"n":{"type":"x","value":7},"n_2":{"type":{"x":1},"value":7}}}`},
		{"a time with a fraction is in the rest, too", `{"detection":{"t":1700000000000.25,"u":1700000000000}}`, []row{
			{"t", from("detection.t"), timestamp}, {"u", from("detection.u"), timestamp},
		}, `{"t":"2023-11-14T22:13:20.000Z","u":"2023-11-14T22:13:20.000Z","rest":{"t":1700000000000.25}}`},
		{"a value that does not fit is in the rest", `{"detection":{"title":{"a":1},"n":"x","p":70000,"t":-1}}`, []row{
			{"a", from("detection.title"), text}, {"n", from("detection.n"), float}, {"p", from("detection.p"), port}, {"t", from("detection.t"), timestamp},
		}, `{"rest":{"title":{"a":1},"n":"x","p":70000,"t":-1}}`},
		{"a value that fits in part is in the rest, too", `{"detection":{"ips":["10.0.0.1","x"]}}`, []row{
			{"ips", from("detection.ips"), each(address)},
		}, `{"ips":["10.0.0.1"],"rest":{"ips":["10.0.0.1","x"]}}`},
		{"digits in a string are a number, but for a sign and leading zeros", `{"detection":{"a":"12","b":"007","c":"+5","d":-3}}`, []row{
			{"a", from("detection.a"), integer}, {"b", from("detection.b"), integer}, {"c", from("detection.c"), integer}, {"d", from("detection.d"), integer},
		}, `{"a":12,"d":-3,"rest":{"b":"007","c":"+5"}}`},
		{"null and values without content are omitted", `{"detection":{"a":null,"b":"","c":[],"d":{},"e":" "}}`, []row{{"x", from("detection.b"), text}}, `{"rest":{"e":" "}}`},
		{"an object where a path goes on is read, anything else is in the rest", `{"audit":{"body":"text"}}`, []row{{"u", from("audit.body.user"), text}}, `{"rest":{"body":"text"}}`},
		{"members of such an object that no row reads", `{"audit":{"body":{"user":"ana","x":1}}}`, []row{{"u", from("audit.body.user"), text}}, `{"u":"ana","rest":{"body.x":1}}`},
		{"an object and some of its members", `{"audit":{"body":{"user":"ana","n":"x","y":1}}}`, []row{
			{"body", from("audit.body"), raw}, {"u", from("audit.body.user"), text}, {"n", from("audit.body.n"), integer},
		}, `{"body":{"user":"ana","n":"x","y":1},"u":"ana"}`},
		{"an object that does not fit, and some of its members", `{"audit":{"body":{"user":"ana","y":1}}}`, []row{
			{"body", from("audit.body"), integer}, {"u", from("audit.body.user"), text},
		}, `{"u":"ana","rest":{"body":{"user":"ana","y":1}}}`},
		{"data beside the object", `{"detection":{"changes":1},"changes":{"status":{}},"link":"x"}`, nil, `{"rest":{"changes":1,"changes_2":{"status":{}},"link":"x"}}`},
		{"a name twice", `{"detection":{"a":1,"a":2,"":3,"\u0000":4}}`, nil, `{"rest":{"a":1,"a_2":2,"_":3,"\\u0000":4}}`},
		{"a long name is in the value", `{"detection":{"` + strings.Repeat("n", 513) + `":[1]}}`, nil, `{"rest":{"_":"{\"` + strings.Repeat("n", 513) + `\":[1]}"}}`},
		{"objects that some parsers refuse are strings", `{"detection":{"a":{"x":1,"x":2},"b":1e999,"c":[{"":1}]}}`, nil, `{"rest":{"a":"{\"x\":1,\"x\":2}","b":"1e999","c":"[{\"\":1}]"}}`},
		{"white space between tokens does not break the line", "{\"detection\":{\"a\":[1,\n 2]}}", nil, `{"rest":{"a":[1,  2]}}`},
		{"an unpaired surrogate is replaced", `{"detection":{"a":"\ud800","b":["\ud800"]}}`, nil, `{"rest":{"a":"` + "\uFFFD" + `","b":"[\"\\ud800\"]"}}`},
		{"data that is no object", `7`, nil, `{"rest":{"data":7}}`},
		{"no data", `null`, nil, `{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := event(t, "detections", test.data)
			assert.Equal(t, encode(t, table{rows: test.rows, rest: "rest"}, e), test.want)
		})
	}
}

func TestTheRestIsInAnObjectOfOtherFields(t *testing.T) {
	rows := []row{{"zone.b", from("=1"), text}, {"nd.a.x", from("=2"), text}, {"nd.z", from("=3"), text}, {"a", from("=4"), text}}
	got := encode(t, table{rows: rows, rest: "nd.rest"}, event(t, "detections", `{"detection":{"x":1}}`))
	assert.Equal(t, got, `{"a":"4","zone":{"b":"1"},"nd":{"a":{"x":"2"},"z":"3","rest":{"x":1}}}`)
}

func TestSeverityHasOneVocabulary(t *testing.T) {
	for _, test := range []struct{ score, want string }{
		{"99", "critical"}, {"85", "high"}, {"31", "medium"}, {"30", "low"}, {"0", "unknown"}, {"null", "unknown"}, {`"high"`, "unknown"},
	} {
		d, err := transform.ParseDetection([]byte(`{"id":1,"mod_time":5,"risk_score":`+test.score+`}`), false)
		require.NoError(t, err)
		e := require.Value(transform.Encoder{Appliance: "hq"}.Detection(d, transform.Observation{}))(t)
		got := encode(t, table{rows: []row{{"s", from("event.severity"), text}}}, e)
		assert.Equal(t, got, `{"s":"`+test.want+`"}`, "score", test.score)
	}
}

func TestATableIsSelectedByTheEventsData(t *testing.T) {
	name := func(n string) []row { return []row{{"t", from("=" + n), text}} }
	c := newEncoder("application/json", []table{
		{stream: "events", rows: name("wrong stream")},
		{stream: "audit", where: condition{source: "audit.body.operation", is: []string{"login"}, has: []string{"password"}}, rows: name("authentication")},
		{stream: "audit", rows: name("other")},
		{stream: "records", where: condition{source: "event.subject", is: []string{"7"}}, rows: name("subject")},
		{stream: "events", rows: name("own")},
	}, (*plan).appendDocument)
	for _, test := range []struct{ stream, data, want string }{
		{"audit", `{"audit":{"body":{"operation":"Login"}}}`, "authentication"},
		{"audit", `{"audit":{"body":{"operation":"Change PASSWORD of ana"}}}`, "authentication"},
		{"audit", `{"audit":{"body":{"operation":"logins"}}}`, "other"},
		{"audit", `{"audit":{"body":7}}`, "other"},
		{"records/dns", `{"record":{}}`, "subject"},
		{"detections", `{}`, "own"}, // no table of its stream: the last one
	} {
		assert.Equal(t, string(c.Encode(event(t, test.stream, test.data)).Payload()), `{"t":"`+test.want+`"}`, test.stream, test.data)
	}
}

// TestNoValueIsLostOrInvalid encodes arbitrary objects: each of their texts and numbers is
// in the document, which every parser accepts.
func TestNoValueIsLostOrInvalid(t *testing.T) {
	scalar := rapid.OneOf(
		rapid.Just("null"), rapid.Just("true"), rapid.Map(rapid.Int64(), func(n int64) string { return string(appendJSON(n)) }),
		rapid.Map(rapid.StringMatching("x[a-zé0-9 ]{1,12}"), func(s string) string { return string(appendJSON(s)) }),
		rapid.SampledFrom([]string{`"10.0.0.1"`, `"fe80::1"`, "1e999", "-0.5", "9223372036854775808", `"\n=|\\"`}),
	)
	name := rapid.SampledFrom([]string{"title", "risk_score", "participants", "object_value", "role", "x", "y", "id"})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		if depth == 0 {
			return scalar
		}
		return rapid.OneOf(scalar,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(v []string) string { return "[" + strings.Join(v, ",") + "]" }),
			rapid.Map(rapid.SliceOfN(rapid.Map(value(depth-1), func(v string) string { return v }), 0, 4), func(v []string) string {
				for i := range v {
					v[i] = `"` + []string{"role", "object_value", "value", "type"}[i] + `":` + v[i]
				}
				return "{" + strings.Join(v, ",") + "}"
			}))
	}
	rows := []row{
		{"a.title", from("detection.title"), text},
		{"a.score", from("detection.risk_score"), float},
		{"b", from("detection.participants"), each(memberOf("object_value", address))},
		{"c", from("detection.participants[role=offender].object_value", "detection.x"), address},
		{"d", from("detection.x + detection.y"), each(integer)},
		{"own.id", from("event.id"), text},
	}
	rapid.Check(t, func(rt *rapid.T) {
		var members []string
		for _, n := range rapid.SliceOfN(name, 0, 8).Draw(rt, "names") {
			members = append(members, `"`+n+`":`+value(3).Draw(rt, "value"))
		}
		object := "{" + strings.Join(members, ",") + "}"
		document := encode(t, table{rows: rows, rest: "own.rest"}, event(t, "detections", `{"detection":`+object+`}`))
		found := string(unescaped(document))
		decoder := jsontext.NewDecoder(strings.NewReader(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		for {
			token, err := decoder.ReadToken()
			if err != nil {
				break
			}
			isText := token.Kind() == '"' && strings.HasPrefix(token.String(), "x") && len(token.String()) > 1
			if isText || token.Kind() == '0' {
				if !strings.Contains(found, string(unescaped(token.String()))) {
					rt.Fatalf("%s of\n%s\nis not in\n%s", token, object, document)
				}
			}
		}
	})
}

func appendJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// unescaped removes what escaping adds, so that texts can be searched.
func unescaped(text string) []byte {
	return []byte(strings.NewReplacer(`\`, "", `"`, "").Replace(text))
}

func TestEveryEventCanBeEncodedInEveryFormat(t *testing.T) {
	for _, name := range Names()[1:] {
		c := require.Value(New(name, Options{Version: "1.4.0"}))(t)
		t.Run(string(name), func(t *testing.T) {
			for _, k := range kinds(t) {
				document := c.Encode(k.event).Payload()
				if !name.IsText() && !jsontext.Value(document).IsValid() {
					t.Errorf("%s: not valid JSON with unique names: %.300s", k.name, document)
				}
			}
		})
	}
}

func TestANumberWrittenAsATextIsTheSameInEveryFormat(t *testing.T) {
	quoted := func(object string, names ...string) string {
		var texts []string
		for _, name := range names {
			texts = append(texts, name, `"`+string(members(object)[name])+`"`)
		}
		return with(object, texts...)
	}
	event := func(object string) transform.Event {
		d := require.Value(transform.ParseDetection([]byte(object), false))(t)
		e := require.Value(hq.Detection(d, created))(t)
		return e
	}
	for _, name := range Names()[1:] {
		c := require.Value(New(name, Options{Version: "1.4.0"}))(t)
		for _, score := range []string{"95", "61", "12"} {
			object := with(detectionObject, "risk_score", score)
			want := c.Encode(event(object)).Payload()
			got := c.Encode(event(quoted(object, "id", "mod_time", "create_time", "start_time", "end_time", "update_time", "risk_score"))).Payload()
			if string(got) != string(want) {
				t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
			}
		}
	}
}

func TestEveryDocumentBeginsWithTheStartOfItsFormat(t *testing.T) {
	for _, name := range Names() {
		t.Run(string(name), func(t *testing.T) {
			encode := func(e transform.Event) transform.Event { return e }
			if name != CloudEvents {
				encoder := require.Value(New(name, Options{Version: "1.2.3"}))(t)
				encode = encoder.Encode
			}
			for _, k := range kinds(t) {
				e := encode(k.event)
				if !bytes.HasPrefix(e.Payload(), []byte(name.Start())) {
					t.Errorf("%s: %.100s", k.name, e.Payload())
				}
			}
		})
	}
	assert.Equal(t, Name("gelf").Start(), "", "an unknown format begins with")
}

// BenchmarkEncode encodes one event of each stream in each format.
func BenchmarkEncode(b *testing.B) {
	events := []struct{ name, kind string }{
		{"detection", "stand-in/detection 1"}, {"audit", "stand-in/audit 1"}, {"record", "stand-in/record 1"}, {"own", "own/ticket.applied"},
	}
	for _, name := range Names()[1:] {
		c := require.Value(New(name, Options{Version: "1.4.0"}))(b)
		for _, e := range events {
			event := kindNamed(b, e.kind)
			b.Run(string(name)+"/"+e.name, func(b *testing.B) {
				b.SetBytes(int64(len(event.Structured())))
				b.ReportAllocs()
				for b.Loop() {
					c.Encode(event)
				}
			})
		}
	}
}

// A search for a free name that began again for each name would take hours here.
func TestManyLeftoversOfOneNameHaveDifferentNames(t *testing.T) {
	const n = 200_000
	e := event(t, "detections", `{"detection":{"x_3":0`+strings.Repeat(`,"x":1`, n)+`}}`)
	document := newEncoder("application/json", []table{{rest: "rest"}}, (*plan).appendDocument).Encode(e).Payload()
	require.True(t, jsontext.Value(document).IsValid(), "a name occurs twice", string(document))
	var got struct{ Rest map[string]int }
	if err := json.Unmarshal(document, &got); err != nil || len(got.Rest) != n+1 {
		t.Errorf("%d values, %v", len(got.Rest), err)
	}
	if last := fmt.Sprintf("x_%d", n+1); got.Rest[last] != 1 || got.Rest["x_3"] != 0 || got.Rest["x"] != 1 {
		t.Errorf("no %s", last)
	}
}

// Small elements take much more memory than their JSON if each has its own slices.
func TestAnEncoderKeepsLittleOfALargeEvent(t *testing.T) {
	for name, data := range map[string]string{
		"many participants":         `{"detection":{"participants":[{"role":"x"}` + strings.Repeat(`,{"role":1}`, 20_000) + `]}}`,
		"many participants of none": `{"detection":{"participants":[{}` + strings.Repeat(`,{}`, 100_000) + `]}}`,
		"many leftovers":            `{"detection":{"x":1` + strings.Repeat(`,"x":1`, 50_000) + `}}`,
		"few values":                `{"detection":{"x":1,"participants":[{"role":"offender"}]}}`,
	} {
		for _, format := range Names()[1:] {
			c := require.Value(New(format, Options{}))(t)
			c.Encode(event(t, "detections", data))
			if values := cap(c.s.rest) + cap(c.s.elements); values > 10_000 || len(c.s.names) > 10_000 {
				t.Errorf("%s in %s: %d values and %d names are kept", name, format, values, len(c.s.names))
			}
		}
	}
}
