package transform_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestALongValueIsTrackedByItsBeginningAndADigest(t *testing.T) {
	const bound = 4 << 10
	long := strings.Repeat("é", 1<<19)
	for name, test := range map[string]struct {
		value, other string // two long values that differ in their last byte
		kind         jsontext.Kind
	}{
		"a text":                       {`"` + long + `a"`, `"` + long + `b"`, jsontext.KindString},
		"a text of escapes":            {`"` + strings.Repeat(`\ud800`, 1<<17) + `a"`, `"` + strings.Repeat(`\ud800`, 1<<17) + `b"`, jsontext.KindString},
		"a text of control characters": {`"` + strings.Repeat(`\u0001`, 1<<17) + `a"`, `"` + strings.Repeat(`\u0001`, 1<<17) + `b"`, jsontext.KindString},
		"a number":                     {strings.Repeat("9", 1<<20) + "1", strings.Repeat("9", 1<<20) + "2", jsontext.KindString},
		"an array":                     {`["` + long + `","a"]`, `["` + long + `","b"]`, jsontext.KindBeginArray},
		"an object":                    {`{"x":"` + long + `a"}`, `{"x":"` + long + `b"}`, jsontext.KindString},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(value string) transform.Detection {
				return parse(t, `{"id":1,"mod_time":5,"status":"new","assignee":`+value+`}`)
			}
			d, same, other := of(test.value), of(test.value), of(test.other)
			assert.True(t, len(d.Tracked) <= bound && jsontext.Value(d.Tracked).IsValid(), len(d.Tracked), "bytes are tracked", string(d.Tracked))
			assert.True(t, string(d.Tracked) == string(same.Tracked) && string(d.Tracked) != string(other.Tracked), "the tracked fields do not distinguish values")
			// What was remembered before values were bounded compares as equal.
			old := []byte(`{"status":"new","assignee":` + test.value + `}`)
			got, want := transform.BoundTracked(old), transform.FirstTracked(d.Tracked)
			assert.Equal(t, string(got), string(want), "an old value is read as")
			event, err := encoder.Detection(other, transform.Observation{Before: d.Tracked, Repeat: 1, Recorded: recorded})
			require.NoError(t, err)
			for name, value := range jsonscan.Members(event.Data()) {
				if string(name) != "changes" {
					continue
				}
				assert.True(t, len(value) <= 2*bound && strings.Count(string(value), "sha256") == 2 && !strings.Contains(string(value), "status"), len(value), string(value))
				for _, change := range jsonscan.Members(value) {
					for _, side := range jsonscan.Members(change) {
						assert.Equal(t, jsontext.Value(side).Kind(), test.kind, "a side of the change")
					}
				}
			}
			assert.Contains(t, string(event.Data()), test.other, "the event does not hold the whole value")
		})
	}
}

func TestAValueOfUsualLengthIsTrackedUnchanged(t *testing.T) {
	usual := `"` + strings.Repeat("x", 4000) + `"`
	d := parse(t, `{"id":1,"mod_time":5,"title":`+usual+`,"participants":[1,2]}`)
	want := `{"title":` + usual + `,"participants":2,"list":2}`
	assert.True(t, string(d.Tracked) == want && string(transform.BoundTracked(d.Tracked)) == want, "tracked", string(d.Tracked))
}

func TestDevicesAreLimited(t *testing.T) {
	var b strings.Builder
	const participants = 400_000
	for i := range participants {
		fmt.Fprintf(&b, `,{"object_type":"device","object_id":%d}`, i)
	}
	d := parse(t, `{"id":1,"mod_time":5,"participants":[`+b.String()[1:]+`]}`)
	ids, whole := d.Devices(1000)
	assert.True(t, len(ids) == 1000 && !whole && ids[999] == 999, len(ids), "devices, whole", whole)
	ids, whole = d.Digested().Devices(1000)
	assert.True(t, len(ids) == 1000 && !whole && ids[999] == 999, len(ids), "devices of a digested detection, whole", whole)
	const device, other = `{"object_type":"device","object_id":9007199254740995}`, `{"object_type":"device","object_id":0}`
	few := parse(t, `{"id":1,"mod_time":5,"participants":[1,`+device+`,`+other+`,`+device+`,{"object_type":"ipaddr","object_id":7}]}`)
	ids, whole = few.Devices(1000)
	digested, wholly := few.Digested().Devices(1000)
	assert.True(t, whole && wholly, "whole", whole, wholly)
	assert.EqualSlices(t, ids, []int64{9007199254740995, 0})
	assert.EqualSlices(t, digested, ids)
	assert.Equal(t, string(d.Tracked), fmt.Sprintf(`{"participants":%d,"list":2}`, participants), "tracked")
}

func TestAttributesOfARecordAreBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<19)
	record := func(id string) transform.Record {
		return transform.ParseRecord([]byte(`{"_index":"`+long+`","_id":"`+id+`","_type":"`+long+`","_source":{"flowId":"`+long+`"}}`), false)
	}
	a, b := record("a"), record("b")
	assert.True(t, a.ID != b.ID && len(a.ID) == 64, "ids", a.ID, b.ID)
	event := require.Value(encoder.Record("q", a, recorded))(t)
	for name, value := range map[string]string{"id": event.ID, "subject": event.Subject, "partitionkey": event.PartitionKey} {
		assert.True(t, len(value) != 0 && len(value) <= 512, name, "has", len(value), "bytes")
	}
}
