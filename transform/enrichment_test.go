package transform_test

import (
	"fmt"
	"testing"
	"time"

	"ndrbridge/transform"
)

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
			e, err := encoder.Detection(parse(t, object), c.sight)
			if err != nil {
				t.Fatal(err)
			}
			action := "updated"
			if c.sight.Created {
				action = "created"
			}
			expect(t, e, transform.Attributes{
				ID: "1-5", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection." + action, Subject: "1",
				Time: time.UnixMilli(5).UTC(), PartitionKey: "1", Appliance: "hq", RecordedTime: recorded,
				SeverityNumber: 9, SeverityText: "INFO", Unenriched: c.sight.Added.Failed,
			}, `{"detection":`+object+c.rest+`}`)
		})
	}
}

func TestTextThatIsNotUTF8IsNotAdded(t *testing.T) {
	for _, added := range []transform.Enrichment{{Format: "\xff"}, {Link: "\xff"}} {
		if e, err := encoder.Detection(parse(t, `{"id":1,"mod_time":5}`), transform.Observation{Added: added}); err == nil {
			t.Errorf("made %q", e.Structured())
		}
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
