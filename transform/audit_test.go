package transform_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// recorded is when the bridge saw what these tests make events of.
var recorded = time.Date(2026, 11, 21, 1, 2, 3, 4e6, time.UTC)

// expect checks an event's attributes and data, and that they are unchanged after
// parsing by the bridge and by the CloudEvents SDK.
func expect(t *testing.T, e transform.Event, want transform.Attributes, data string) {
	t.Helper()
	assert.Equal(t, e.Attributes, want, "attributes")
	assert.Equal(t, string(e.Data()), data, "data")
	read, err := transform.Parse(e.Structured())
	require.NoError(t, err, string(e.Structured()))
	assert.Equal(t, read.Attributes, want, "read back")
	assert.Equal(t, string(read.Data()), data)
	var other cloudevents.Event
	require.NoError(t, json.Unmarshal(e.Structured(), &other), string(e.Structured()))
	assert.NoError(t, other.Validate(), string(e.Structured()))
	for name, value := range e.Headers() {
		var got any
		switch name {
		case "specversion":
			got = other.SpecVersion()
		case "id":
			got = other.ID()
		case "source":
			got = other.Source()
		case "type":
			got = other.Type()
		case "subject":
			got = other.Subject()
		case "time":
			got = other.Time().Format("2006-01-02T15:04:05.000Z07:00")
		default:
			got = other.Extensions()[name]
		}
		assert.Equal(t, fmt.Sprint(got), value, "the SDK", name, got)
	}
	assert.Equal(t, string(other.Data()), data, "the SDK has data")
}

func parseAudit(t require.T, object string) transform.AuditEntry {
	t.Helper()
	e := require.Value(transform.ParseAuditEntry([]byte(object), false))(t)
	return e
}

func TestAnAuditEntryBecomesAnEvent(t *testing.T) {
	for _, c := range []struct {
		name, object string
		repaired     bool
		id, time     string // time is empty: absent
	}{
		{
			"when it occurred is its time, when it was logged part of its id",
			`{"id": 25769804127, "occur_time": 1710001000000, "time": 1710001000123, "body": {"operation": "Login", "n": 9007199254740993, "v": 1.10}}`,
			false, "25769804127-1710001000123", "2024-03-09T16:16:40.000Z",
		},
		{
			"it can lack when it occurred", `{"id":5,"time":1710001000123}`,
			false, "5-1710001000123", "2024-03-09T16:16:40.123Z",
		},
		{
			"it can lack when it was logged", `{"id":5,"occur_time":1710001000000,"time":null}`,
			false, "5-1710001000000", "2024-03-09T16:16:40.000Z",
		},
		{
			"a fraction of a millisecond is cut off", `{"id":5,"time":1710001000123.9,"occur_time":1710001000000.5}`,
			false, "5-1710001000123", "2024-03-09T16:16:40.000Z",
		},
		{
			"a time that no event can hold is none", `{"id":5,"time":253402300800000,"occur_time":1710001000000}`,
			false, "5-1710001000000", "2024-03-09T16:16:40.000Z",
		},
		{
			"replaced bytes are reported", `{"id":-5,"time":1710001000123,"body":"` + "\uFFFD" + `"}`,
			true, "-5-1710001000123", "2024-03-09T16:16:40.123Z",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			entry := require.Value(transform.ParseAuditEntry([]byte(c.object), c.repaired))(t)
			e := require.Value(encoder.AuditEntry(entry, recorded))(t)
			at := require.Value(time.Parse(time.RFC3339, c.time))(t)
			expect(t, e, transform.Attributes{
				ID: c.id, Source: "ndrbridge://hq/audit", Type: "io.ndrbridge.audit.logged",
				Subject: c.id[:strings.LastIndexByte(c.id, '-')], Time: at, PartitionKey: "hq", Appliance: "hq",
				RecordedTime: recorded, Repaired: c.repaired,
			}, `{"audit":`+c.object+`}`)
		})
	}
}

func TestAnAuditEntryWithoutATimeIsIdentifiedByItsID(t *testing.T) {
	for _, object := range []string{
		`{"id":5,"body":{"operation":"Login"}}`, `{"id":5,"time":"soon","occur_time":{}}`, `{"id":5,"time":0,"occur_time":-1}`,
		`{"id":5,"time":1e400,"occur_time":true}`, `{"id":5,"time":0.5}`, `{"id":5,"time":[1710001000123]}`,
	} {
		e := require.Value(encoder.AuditEntry(parseAudit(t, object), recorded))(t)
		assert.True(t, e.Time.IsZero() && e.Subject == "5" && e.ID == "5-0", object, e.Attributes)
	}
}

func TestAnAuditEntryNeedsAnID(t *testing.T) {
	for _, object := range []string{
		`{}`, `{"time":5}`, `{"id":null}`, `{"id":"five"}`, `{"id":5.0}`, `{"id":9223372036854775808}`, `{"id":[5]}`, `{"body":{"id":5}}`,
	} {
		e, err := transform.ParseAuditEntry([]byte(object), false)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), "id: "), object, "entry", e.ID, err)
	}
	e := parseAudit(t, `{"id":1,"id":9223372036854775807}`)
	assert.Equal(t, e.ID, 9223372036854775807, "of two ids the last counts, as with any decoder, and not")
}

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
			e := require.Value(encoder.Record("web", r, recorded))(t)
			assert.True(t, r.ID == e.ID && (r.Time > 0) != e.Time.IsZero(), "record", r.ID, r.Time, "became event", e.ID, e.Time)
			want := c.want
			want.Source, want.Type, want.Appliance, want.RecordedTime = "ndrbridge://hq/records/web", "io.ndrbridge.record.stored", "hq", recorded
			expect(t, e, want, `{"record":`+c.object+`}`)
			assert.Equal(t, e.Stream(), "records", "stream")
			assert.Equal(t, e.Action(), "stored", "action")
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
		require.True(t, r.ID != "" && r.Time >= 0, string(object), "record", r)
		again := transform.ParseRecord([]byte(strings.Clone(string(object))), false)
		require.True(t, again.ID == r.ID && again.Time == r.Time, string(object), "record", r, "then", again)
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
