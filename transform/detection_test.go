package transform_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

const sample = `{
 "id": 25769804127, "start_time": 1750935450304, "update_time": 1751347620747, "mod_time": 1750935535971,
 "create_time": 1750935466182, "title": "Port scan \"fast\"", "risk_score": 61, "type": "port_scan",
 "categories": ["sec", "sec.recon"], "participants": [{"id": 1}, {"id": 2}], "ticket_id": 3041,
 "status": null, "properties": {"ratio": 1.10, "big": 9007199254740993}, "recommended": true
}`

func TestADetectionIsRead(t *testing.T) {
	d := require.Value(transform.ParseDetection([]byte(sample), false))(t)
	assert.True(t, d.ID == 25769804127 && d.ModTime == 1750935535971 && d.Began == 1750935466182, "id", d.ID, "mod_time", d.ModTime, "began", d.Began)
	const tracked = `{"ticket_id":3041,"risk_score":61,"title":"Port scan \"fast\"","type":"port_scan",` +
		`"categories":["sec","sec.recon"],"recommended":true,"participants":2,"list":2}`
	assert.Equal(t, string(d.Tracked), tracked, "tracked")
}

func TestTheSameDetectionWrittenDifferentlyHasNoChanges(t *testing.T) {
	const object = `{"id":25769804127,"mod_time":1750935535971,"create_time":1750935450304,"end_time":1750935530123,
		"risk_score":95,"ticket_id":17,"title":"7","status":"new","categories":["sec"],"participants":[{"id":1}]}`
	before := parse(t, object)
	for _, c := range []struct {
		name, object string
		changed      string // fields
	}{
		{"with numbers as texts", `{"id":"25769804127","mod_time":"1750935535971","create_time":"1750935450304","end_time":"1750935530123",
			"risk_score":"95","ticket_id":"17","title":7,"status":"new","categories":["sec"],"participants":[{"id":"1"}]}`, ""},
		{"with times with a fraction", `{"id":25769804127,"mod_time":1750935535971.25,"create_time":1750935450304.5,"end_time":1750935530123.75,
			"risk_score":95,"ticket_id":17,"title":"7","status":"new","categories":["sec"],"participants":[{"id":1}]}`, ""},
		{"with an end in whole seconds", `{"id":25769804127,"mod_time":1750935535971,"create_time":1750935450304,"end_time":1750935530,
			"risk_score":95,"ticket_id":17,"title":"7","status":"new","categories":["sec"],"participants":[{"id":1}]}`, ""},
		{"in another order, with another field", `{"participants":[{"new":true,"id":1}],"categories":["sec"],"status":"new","title":"7","ticket_id":17,"risk_score":95,
			"end_time":1750935530123,"create_time":1750935450304,"mod_time":1750935535971,"id":25769804127,"new":{"a":1}}`, ""},
		{"with other values", `{"id":"25769804127","mod_time":"1750935535971","create_time":1750935450304,"end_time":"1750935532",
			"risk_score":"94","ticket_id":"017","title":"7.0","status":"new","categories":["sec"]}`, "ticket_id risk_score title end_time participants"},
	} {
		t.Run(c.name, func(t *testing.T) {
			after := parse(t, c.object)
			assert.True(t, after.ID == before.ID && after.ModTime == before.ModTime && after.Created == before.Created, "detection", after.ID, after.ModTime, "created", after.Created)
			var changed []string
			for change := range transform.Changes(before.Tracked, after.Tracked) {
				changed = append(changed, change.Field)
			}
			got := strings.Join(changed, " ")
			assert.True(t, got == c.changed && transform.SameTracked(before.Tracked, after.Tracked) == (c.changed == ""), got, "have changed, want", c.changed)
			e, err := encoder.Detection(after, transform.Observation{Before: before.Tracked})
			assert.True(t, err == nil && e.SeverityText == "critical" && strings.Contains(string(e.Data()), c.object), "severity", e.SeverityText, "data", string(e.Data()), err)
		})
	}
}

func TestOptionalFieldsOfADetection(t *testing.T) {
	for _, c := range []struct {
		name, object string
		began        int64
		err          string
	}{
		{"a null create_time leaves start_time", `{"id":1,"mod_time":5,"create_time":null,"start_time":3}`, 3, ""},
		{"neither time is essential", `{"id":1,"mod_time":5}`, 0, ""},
		{"an id is essential", `{"mod_time":5}`, 0, "id: absent"},
		{"a null id is none", `{"id":null,"mod_time":5}`, 0, "id: absent"},
		{"every number can be a text", `{"id":"1","mod_time":"5","create_time":"3"}`, 3, ""},
		{"a text is no id", `{"id":"one","mod_time":5}`, 0, "id: "},
		{"a mod_time is essential", `{"id":1}`, 0, "mod_time: absent"},
		{"a mod_time of 0 is none", `{"id":1,"mod_time":0}`, 0, "mod_time: 0"},
		{"a text is no mod_time", `{"id":1,"mod_time":"soon"}`, 0, "mod_time: "},
		{"a time may have a fraction", `{"id":1,"mod_time":1750000000123.5,"create_time":1740000000123.5}`, 1740000000123, ""},
		{"a time may be in seconds", `{"id":1,"mod_time":1750000000,"create_time":1740000000}`, 1740000000000, ""},
		{"a mod_time beyond the year 9999 cannot be written", `{"id":1,"mod_time":253402300800000}`, 0, "mod_time: "},
		{"a number past 64 bits is none", `{"id":1,"mod_time":99999999999999999999}`, 0, "mod_time: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := transform.ParseDetection([]byte(c.object), false)
			require.True(t, (err != nil) == (c.err != "") && (err == nil || strings.HasPrefix(err.Error(), c.err)), err, c.err)
			assert.True(t, err != nil || d.Began == c.began, "began", d.Began, c.began)
		})
	}
}

func parse(t *testing.T, object string) transform.Detection {
	t.Helper()
	d := require.Value(transform.ParseDetection([]byte(object), false))(t)
	return d
}

var encoder = transform.Encoder{Appliance: "hq"}

func TestAVersionBecomesAnEvent(t *testing.T) {
	recorded := time.Date(2026, 11, 21, 1, 2, 3, 4e6, time.UTC)
	before := parse(t, `{"id":25769804127,"mod_time":1,"status":"new","risk_score":61,"categories":["sec","sec.recon"],
		"title":"Port scan \"fast\"","type":"port_scan","ticket_id":3041,"recommended":true,"participants":[{"id":1}]}`)
	for _, c := range []struct {
		name  string
		sight transform.Observation
		id    string
		typ   string
		data  string
	}{
		{
			"on first sight of a new detection", transform.Observation{Created: true, Repeat: 1, Recorded: recorded},
			"25769804127-1750935535971", "io.ndrbridge.detection.created", `{"detection":` + sample + `}`,
		},
		{
			"on first sight of one that began before", transform.Observation{Repeat: 1, Recorded: recorded},
			"25769804127-1750935535971", "io.ndrbridge.detection.updated", `{"detection":` + sample + `}`,
		},
		{
			"with what changed since", transform.Observation{Before: before.Tracked, Repeat: 1, Recorded: recorded},
			"25769804127-1750935535971", "io.ndrbridge.detection.updated", `{"detection":` + sample +
				`,"changes":{"status":{"from":"new","to":null},"participants":{"from":1,"to":2}}}`,
		},
		{
			"with no changes where nothing tracked did", transform.Observation{Before: parse(t, sample).Tracked, Repeat: 3, Recorded: recorded},
			"25769804127-1750935535971-3", "io.ndrbridge.detection.updated", `{"detection":` + sample + `,"changes":{}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := require.Value(encoder.Detection(parse(t, sample), c.sight))(t)
			want := transform.Attributes{
				ID: c.id, Source: "ndrbridge://hq/detections", Type: c.typ, Subject: "25769804127",
				Time: time.UnixMilli(1750935535971).UTC(), PartitionKey: "25769804127", Appliance: "hq",
				RecordedTime: recorded, SeverityNumber: 13, SeverityText: "medium",
			}
			assert.Equal(t, e.Attributes, want, "attributes")
			assert.Equal(t, string(e.Data()), c.data, "data")
		})
	}
}

func TestSeverityFollowsTheRiskScore(t *testing.T) {
	for _, c := range []struct {
		fields string
		number int32
		text   string
	}{
		{`"risk_score":null`, 9, "unknown"},
		{`"type":"x"`, 9, "unknown"},
		{`"risk_score":0`, 9, "unknown"},
		{`"risk_score":30`, 9, "low"},
		{`"risk_score":31`, 13, "medium"},
		{`"risk_score":79`, 13, "medium"},
		{`"risk_score":80`, 17, "high"},
		{`"risk_score":89`, 17, "high"},
		{`"risk_score":90`, 21, "critical"},
		{`"risk_score":99`, 21, "critical"},
		{`"risk_score":"high"`, 9, "unknown"},
		{`"risk_score":95,"categories":["perf","perf.web"]`, 13, "medium"},
		{`"risk_score":95,"categories":["sec","sec.dos"]`, 21, "critical"},
	} {
		e, err := encoder.Detection(parse(t, `{"id":1,"mod_time":5,`+c.fields+`}`), transform.Observation{Created: true, Repeat: 1})
		require.NoError(t, err)
		assert.Equal(t, e.SeverityNumber, c.number, c.fields)
		assert.Equal(t, e.SeverityText, c.text, c.fields)
	}
}

func TestAStoredEventOfAnEarlierVersionHasTheSeveritiesOfToday(t *testing.T) {
	for _, c := range []struct {
		number     int32
		text, data string
		want       string
	}{
		{21, "FATAL", `{"detection":{"risk_score":95}}`, "critical"},
		{17, "ERROR", `{"detection":{"risk_score":85}}`, "high"},
		{13, "WARN", `{"detection":{"risk_score":95}}`, "medium"}, // a performance detection
		{9, "INFO", `{"detection":{"risk_score":30}}`, "low"},
		{9, "INFO", `{"detection":{"risk_score":0}}`, "unknown"},
		{9, "INFO", `{"detection":{}}`, "unknown"},
		{9, "", `{}`, "unknown"},
		{0, "", `{"detection":{"risk_score":95}}`, ""},
	} {
		a := transform.Attributes{ID: "1", Source: "ndrbridge://hq/detections", Type: "a.b", SeverityNumber: c.number, SeverityText: c.text}
		assert.Equal(t, require.Value(transform.New(a, []byte(c.data)))(t).SeverityWord(), c.want, c)
	}
	for kind, want := range map[string]string{"appliance.unreachable": "high", "ticket.rejected": "medium", "heartbeat": "low"} {
		a := transform.Attributes{ID: "1", Source: "ndrbridge://hq/events", Type: "io.ndrbridge." + kind}
		assert.Equal(t, require.Value(transform.New(a, []byte(`{}`)))(t).SeverityWord(), want, kind)
	}
}

func TestMembersAgreeWithADecoder(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(3) })
	rapid.Check(t, func(t *rapid.T) {
		object := map[string]any{}
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			object[anyText.Draw(t, "name")] = value.Draw(t, "value")
		}
		encode := json.Marshal
		if rapid.Bool().Draw(t, "indented") {
			encode = func(v any) ([]byte, error) { return json.MarshalIndent(v, "", " \t\n") }
		}
		b := require.Value(encode(object))(t)
		found := 0
		for name, value := range jsonscan.Members(b) {
			var key string
			require.NoError(t, json.Unmarshal([]byte(`"`+string(name)+`"`), &key))
			want := require.Value(json.Marshal(object[key]))(t)
			var v any
			require.NoError(t, json.Unmarshal(value, &v), string(value), "of", string(b))
			got, _ := json.Marshal(v)
			require.Equal(t, string(got), string(want), key)
			found++
		}
		require.Equal(t, found, len(object), "members of", b)
	})
}

func anyValue(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Map(anyText, func(s string) any { return s }),
		rapid.Map(rapid.Int32(), func(n int32) any { return n }),
		rapid.Just[any](nil), rapid.Just[any](true),
	)
	if depth == 0 {
		return scalar
	}
	inner := anyValue(depth - 1)
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(inner, 0, 3), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(anyText, inner, 0, 3), func(m map[string]any) any { return m }),
	)
}

func BenchmarkDetection(b *testing.B) {
	object := strings.Replace(sample, `"properties"`, `"description":"`+strings.Repeat("word ", 320)+`","properties"`, 1)
	before := []byte(`{"status":"new"}`)
	b.SetBytes(int64(len(object)))
	b.ReportAllocs()
	for b.Loop() {
		d := require.Value(transform.ParseDetection([]byte(object), false))(b)
		if _, err := encoder.Detection(d, transform.Observation{Before: before, Repeat: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseDetection measures what reading a page again costs for each detection.
func BenchmarkParseDetection(b *testing.B) {
	const participant = `{"role":"victim","endpoint":"server","external":false,"object_id":25769803790,"object_type":"device",` +
		`"object_value":"10.3.99.164","hostname":"files-3.corp.example","username":null,"id":%d}`
	for _, participants := range []int{2, 1000} {
		var all []string
		for i := range participants {
			all = append(all, fmt.Sprintf(participant, 7189+i))
		}
		object := strings.Replace(sample, `"properties"`, `"description":"`+strings.Repeat("word ", 320)+`","properties"`, 1)
		object = strings.Replace(object, `{"id": 1}, {"id": 2}`, strings.Join(all, ","), 1)
		b.Run(fmt.Sprintf("of %d participants", participants), func(b *testing.B) {
			b.SetBytes(int64(len(object)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := transform.ParseDetection([]byte(object), false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	e, err := encoder.Detection(transform.Detection{ID: 1, ModTime: 5}, transform.Observation{Created: true, Repeat: 1, Recorded: time.Now()})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := transform.Parse(e.Structured()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEnrichmentIsAddedBesideTheDetection(t *testing.T) {
	const object = `{"id":1,"mod_time":5,"status":"new"}`
	for _, c := range []struct {
		name  string
		sight transform.Observation
		rest  string // of data, behind the detection
	}{
		{"nothing", transform.Observation{Created: true}, ``},
		{"everything", transform.Observation{Created: true, Added: transform.Enrichment{
			Devices: []byte(`[{"id":6,"n":1.10,"big":9007199254740993}]`), Format: `Port "Scan" é`, Link: "https://hq.example/service/#/detections/detail/1",
		}}, `,"devices":[{"id":6,"n":1.10,"big":9007199254740993}],"format":"Port \"Scan\" é","link":"https://hq.example/service/#/detections/detail/1"`},
		{"no devices, since there are none", transform.Observation{Created: true, Added: transform.Enrichment{Devices: []byte(`[]`)}}, `,"devices":[]`},
		{"what there is, and what failed", transform.Observation{Created: true, Added: transform.Enrichment{Link: "l", Failed: "devices,format"}}, `,"link":"l"`},
		{"something beside changes", transform.Observation{Before: []byte(`{"status":"closed"}`), Added: transform.Enrichment{Format: "Scan"}},
			`,"changes":{"status":{"from":"closed","to":"new"}},"format":"Scan"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.sight.Repeat, c.sight.Recorded = 1, recorded
			e := require.Value(encoder.Detection(parse(t, object), c.sight))(t)
			action := "updated"
			if c.sight.Created {
				action = "created"
			}
			expect(t, e, transform.Attributes{
				ID: "1-5", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection." + action, Subject: "1",
				Time: time.UnixMilli(5).UTC(), PartitionKey: "1", Appliance: "hq", RecordedTime: recorded,
				SeverityNumber: 9, SeverityText: "unknown", Unenriched: c.sight.Added.Failed,
			}, `{"detection":`+object+c.rest+`}`)
		})
	}
}

func TestTextThatIsNotUTF8IsNotAdded(t *testing.T) {
	for _, added := range []transform.Enrichment{{Format: "\xff"}, {Link: "\xff"}} {
		e, err := encoder.Detection(parse(t, `{"id":1,"mod_time":5}`), transform.Observation{Added: added})
		assert.Error(t, err, "made", string(e.Structured()))
	}
}

func TestFieldsForEnrichment(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		kind, url    string
		userCreated  bool
		devices      []int64
	}{
		{"none are there", ``, "", "", false, nil},
		{"all are null", `,"type":null,"url":null,"is_user_created":null,"participants":null`, "", "", false, nil},
		{"all are of a wrong type", `,"type":["x"],"url":{},"is_user_created":"true","participants":{"object_type":"device","object_id":1}`, "", "", false, nil},
		{"all are there", `,"type":"custom.a\u0062","url":"https:\/\/hq.example\/#/1","is_user_created":true,"participants":[
			{"id":1,"object_type":"device","object_id":25769803777},
			{"id":2,"object_type":"ipaddr","object_id":2},
			{"id":3,"object_id":9007199254740993,"object_type":"device","properties":{"object_id":4}},
			{"id":4,"object_type":"device","object_id":25769803777},
			{"id":5,"object_type":"device","object_id":null}, {"id":6,"object_type":"device"},
			{"id":7,"object_type":"device","object_id":"8a"}, null, 9, [1]]`,
			"custom.ab", "https://hq.example/#/1", true, []int64{25769803777, 9007199254740993}},
		{"of two members with one name the last counts", `,"type":"a","type":"b","url":"x","url":null`, "b", "", false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := parse(t, `{"id":1,"mod_time":5`+c.fields+`}`)
			devices, whole := d.Devices(10)
			if d.Type() != c.kind || d.URL() != c.url || d.UserCreated() != c.userCreated || fmt.Sprint(devices) != fmt.Sprint(c.devices) || !whole {
				t.Errorf("type %q, URL %q, user created %t, devices %d", d.Type(), d.URL(), d.UserCreated(), devices)
			}
		})
	}
}
