package transform_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"ndrbridge/transform"
)

func TestARecordBecomesAnEvent(t *testing.T) {
	const whole = `{
 "_id": "AW1goQ", "_index": "store-11-2019-9-24-0", "_type": "~http", "sort": [1569284181000.5],
 "_source": {"timestamp": 1569284181528.201, "flowId": "0cac4df05d896054", "processingTime": 233.310,
  "reqBytes": 9007199254740993, "timestamp_ms": 1, "ex": {"flowId": "x", "timestamp": 1}}
}`
	sum := func(object string) string {
		s := sha256.Sum256([]byte(object))
		return hex.EncodeToString(s[:])
	}
	const noID = `{"_index":"i","_type":"~dns","_source":{"timestamp":1569284181528}}`
	at := time.UnixMilli(1569284181528).UTC()
	for _, c := range []struct {
		name, object string
		repaired     bool
		want         transform.Attributes // what follows from the record alone
	}{
		{"with all that it can have", whole, false, transform.Attributes{
			ID: "store-11-2019-9-24-0-AW1goQ", Subject: "~http", Time: at, PartitionKey: "0cac4df05d896054"}},
		{"without an _id it is identified by its bytes", noID, false, transform.Attributes{
			ID: sum(noID), Subject: "~dns", Time: at, PartitionKey: sum(noID)}},
		{"an empty _id is none", `{"_id":"","_index":"i"}`, false, transform.Attributes{
			ID: sum(`{"_id":"","_index":"i"}`), PartitionKey: sum(`{"_id":"","_index":"i"}`)}},
		{"a null _id is none", `{"_id":null}`, false, transform.Attributes{
			ID: sum(`{"_id":null}`), PartitionKey: sum(`{"_id":null}`)}},
		{"an _id that is not a scalar is ignored", `{"_id":{"x":1},"_type":["~dns"]}`, false, transform.Attributes{
			ID: sum(`{"_id":{"x":1},"_type":["~dns"]}`), PartitionKey: sum(`{"_id":{"x":1},"_type":["~dns"]}`)}},
		{"an _id without an _index stands alone", `{"_id":"a"}`, false, transform.Attributes{
			ID: "a", PartitionKey: "a"}},
		{"an _id that is a number counts as it is written", `{"_id":9007199254740993,"_index":"i"}`, false, transform.Attributes{
			ID: "i-9007199254740993", PartitionKey: "i-9007199254740993"}},
		{"escapes are undone", `{"_id":"a\u0062\"","_index":"\u00e9","_type":"~\/"}`, false, transform.Attributes{
			ID: `é-ab"`, Subject: "~/", PartitionKey: `é-ab"`}},
		{"half of a surrogate pair is replaced", `{"_id":"a\ud800","_type":"~x"}`, false, transform.Attributes{
			ID: "a\uFFFD", Subject: "~x", PartitionKey: "a\uFFFD"}},
		{"a flow id that is a number is one", `{"_id":"a","_source":{"flowId":17}}`, false, transform.Attributes{
			ID: "a", PartitionKey: "17"}},
		{"an empty flow id is none", `{"_id":"a","_source":{"flowId":""}}`, false, transform.Attributes{
			ID: "a", PartitionKey: "a"}},
		{"where it has no timestamp, what it was sorted by is its time", `{"_id":"a","sort":[1569284181528.9,"x"],"_source":{}}`, false, transform.Attributes{
			ID: "a", Time: at, PartitionKey: "a"}},
		{"a timestamp that is none leaves it without a time", `{"_id":"a","sort":["x",1569284181528],"_source":{"timestamp":"soon"}}`, false, transform.Attributes{
			ID: "a", PartitionKey: "a"}},
		{"a source that is not an object is ignored", `{"_id":"a","_source":[{"timestamp":5}],"sort":{"0":5}}`, false, transform.Attributes{
			ID: "a", PartitionKey: "a"}},
		{"of two members with one name the last counts", `{"_id":"a","_id":"b","_type":"~x","_type":"~y"}`, false, transform.Attributes{
			ID: "b", Subject: "~y", PartitionKey: "b"}},
		{"replaced bytes are reported", `{"_id":"` + "\uFFFD" + `"}`, true, transform.Attributes{
			ID: "\uFFFD", PartitionKey: "\uFFFD", Repaired: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := transform.ParseRecord([]byte(c.object), c.repaired)
			e, err := encoder.Record("web", r, recorded)
			if err != nil {
				t.Fatal(err)
			}
			if r.ID != e.ID || (r.Time > 0) == e.Time.IsZero() {
				t.Errorf("record %s of %d became event %s of %s", r.ID, r.Time, e.ID, e.Time)
			}
			want := c.want
			want.Source, want.Type, want.Appliance, want.RecordedTime = "ndrbridge://hq/records/web", "io.ndrbridge.record.stored", "hq", recorded
			expect(t, e, want, `{"record":`+c.object+`}`)
			if e.Stream() != "records" || e.Action() != "stored" {
				t.Errorf("stream %s, action %s", e.Stream(), e.Action())
			}
		})
	}
}

func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`{"_id":"a","_index":"i","_type":"~http","sort":[1.5],"_source":{"timestamp":1569284181528.201,"flowId":"f"}}`,
		`{"_id":"\ud800"}`, `{"_id":"\u0000\ud800\udc00"}`, `{"_id":`, `{"_source":{"timestamp":NaN}}`, `{"_source":{"timestamp":0x7p5}}`, `{"sort":[Inf]}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		r := transform.ParseRecord(object, false)
		if r.ID == "" || r.Time < 0 {
			t.Fatalf("%q: record %+v", object, r)
		}
		again := transform.ParseRecord([]byte(strings.Clone(string(object))), false)
		if again.ID != r.ID || again.Time != r.Time {
			t.Fatalf("%q: record %+v, then %+v", object, r, again)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	object := []byte(`{"_id":"AW1goQ","_index":"store-11-2019-9-24-0","_type":"~http","sort":[1569284181528.201],"_source":{` +
		strings.Repeat(`"roundTripTime":0.245,"uri":"prod1.example/login",`, 20) + `"flowId":"0cac4df05d896054","timestamp":1569284181528.201}}`)
	b.SetBytes(int64(len(object)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encoder.Record("web", transform.ParseRecord(object, false), recorded); err != nil {
			b.Fatal(err)
		}
	}
}
