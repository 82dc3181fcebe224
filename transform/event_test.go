package transform_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// anyText is text of the kind that appliances and configurations hold, with
// what JSON and headers must escape.
var anyText = rapid.StringOf(rapid.OneOf(
	rapid.RuneFrom([]rune{'"', '\\', '/', '\n', '\u0000', '\u007f', '%', ' ', '<', 'é', '日', '\U0001f600', ',', ':', '{', '}'}),
	rapid.RuneFrom([]rune("abcXYZ019.-_")),
))

func anyAttributes(t *rapid.T) transform.Attributes {
	required := rapid.Custom(func(t *rapid.T) string { return "x" + anyText.Draw(t, "text") })
	optional := rapid.OneOf(rapid.Just(""), required)
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		if ms := rapid.Int64Range(0, 253402300799999).Draw(t, "ms"); ms > 0 {
			return time.UnixMilli(ms).UTC()
		}
		return time.Time{}
	})
	return transform.Attributes{
		ID: required.Draw(t, "id"), Source: required.Draw(t, "source"), Type: required.Draw(t, "type"),
		Subject: optional.Draw(t, "subject"), Time: moment.Draw(t, "time"), PartitionKey: anyText.Draw(t, "key"),
		Appliance: anyText.Draw(t, "appliance"), RecordedTime: moment.Draw(t, "recorded"),
		SeverityNumber: rapid.Int32Range(0, 24).Draw(t, "severity"), SeverityText: anyText.Draw(t, "severity text"),
		Repaired: rapid.Bool().Draw(t, "repaired"), Unenriched: optional.Draw(t, "unenriched"),
		CausedBy:    optional.Draw(t, "caused by"),
		Redelivered: rapid.Bool().Draw(t, "redelivered"),
	}
}

func TestParseInvertsStructured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAttributes(t)
		data := rapid.SampledFrom([]string{`{}`, `{"data":{"a":"\""}}`, ` { "n" : 1.10 } `, `[1,2]`, `"}"`, `null`}).Draw(t, "data")
		made, err := transform.New(a, []byte(data))
		require.NoError(t, err)
		read, err := transform.Parse(bytes.Clone(made.Structured()))
		require.NoError(t, err, string(made.Structured()))
		require.Equal(t, made.Attributes, a, "made")
		require.Equal(t, read.Attributes, a, "read back")
		require.Equal(t, string(made.Data()), data, "data")
		require.Equal(t, string(read.Data()), data, "read back")
	})
}

func TestEventsOfAVersionThatTracedCanBeRead(t *testing.T) {
	e, err := transform.Parse([]byte(`{"specversion":"1.0","id":"a","source":"s","type":"t","traceparent":"00-1-2-01","data":1}`))
	assert.True(t, err == nil && e.ID == "a" && string(e.Data()) == "1", e, err)
}

func TestParseRefusesWhatTheBridgeDoesNotEncode(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":                          `id`,
		"no data":                          `{"specversion":"1.0","id":"a","source":"s","type":"t"}`,
		"no id":                            `{"specversion":"1.0","source":"s","type":"t","data":1}`,
		"data that is not last":            `{"specversion":"1.0","id":"a","source":"s","type":"t","data":1,"subject":"b"`,
		"white space behind the data name": `{"specversion":"1.0","id":"a","source":"s","type":"t","data" :1}`,
		"an unknown attribute":             `{"specversion":"1.0","id":"a","source":"s","type":"t","colour":"red","data":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			e, err := transform.Parse([]byte(text))
			assert.Error(t, err, "read as", e)
		})
	}
}

func TestARedeliveredEventOnlyDiffersInItsAttribute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAttributes(t)
		made := require.Value(transform.New(a, []byte(`{"detection":{}}`)))(t)
		before := bytes.Clone(made.Structured())
		again := made.Redeliver(7)
		a.Redelivered = true
		want := require.Value(transform.New(a, []byte(`{"detection":{}}`)))(t)
		if !bytes.Equal(again.Structured(), want.Structured()) || !bytes.Equal(again.Data(), want.Data()) || again.Attributes != a {
			t.Fatalf("%s\nwant %s", again.Structured(), want.Structured())
		}
		if again.Redelivery() != 7 || made.Redelivery() != 0 || !bytes.Equal(made.Structured(), before) {
			t.Fatalf("the event itself has changed: %s, redelivery %d", made.Structured(), made.Redelivery())
		}
	})
}

func TestTheCloudEventsSDKReadsEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAttributes(t)
		a.Source = "ndrbridge://hq/detections" // the SDK requires a URI
		made := require.Value(transform.New(a, []byte(`{"detection":{"id":25769804127,"x":1.10}}`)))(t)
		var e cloudevents.Event
		require.NoError(t, json.Unmarshal(made.Structured(), &e), string(made.Structured()))
		require.NoError(t, e.Validate(), string(made.Structured()))
		require.True(t, e.ID() == a.ID && e.Type() == a.Type && e.Subject() == a.Subject && e.Time().Equal(a.Time), "the SDK read", e, a)
		got, _ := e.Extensions()["partitionkey"].(string)
		require.Equal(t, got, a.PartitionKey, "partitionkey")
		require.Equal(t, string(e.Data()), string(made.Data()), "data")
	})
}

func TestInvalidEventsAreRefused(t *testing.T) {
	whole := transform.Attributes{ID: "1", Source: "s", Type: "t"}
	for name, spoil := range map[string]func(*transform.Attributes){
		"without an id":                     func(a *transform.Attributes) { a.ID = "" },
		"without a source":                  func(a *transform.Attributes) { a.Source = "" },
		"without a type":                    func(a *transform.Attributes) { a.Type = "" },
		"with an attribute that's no UTF-8": func(a *transform.Attributes) { a.Subject = "\xff" },
	} {
		t.Run(name, func(t *testing.T) {
			a := whole
			spoil(&a)
			e, err := transform.New(a, []byte(`{}`))
			require.True(t, err != nil, "made", string(e.Structured()))
		})
	}
}

func TestTheStreamAndTheActionFollowFromSourceAndType(t *testing.T) {
	for _, c := range []struct{ source, typ, stream, action string }{
		{"ndrbridge://hq/detections", "io.ndrbridge.detection.created", "detections", "created"},
		{"ndrbridge://hq/audit", "io.ndrbridge.audit.logged", "audit", "logged"},
		{"ndrbridge://hq/auditlog", "io.ndrbridge.audit.logged", "audit", "logged"}, // of an earlier version
		{"ndrbridge://hq/records/dns", "io.ndrbridge.record.stored", "records", "stored"},
		{"ndrbridge://bridge/events", "io.ndrbridge.heartbeat", "events", "heartbeat"},
	} {
		e := require.Value(transform.New(transform.Attributes{ID: "1", Source: c.source, Type: c.typ}, []byte(`{}`)))(t)
		assert.Equal(t, e.Stream(), c.stream, c.source, c.typ, "stream")
		assert.Equal(t, e.Action(), c.action, c.source, c.typ, "action")
	}
}

func FuzzParse(f *testing.F) {
	e, err := transform.New(transform.Attributes{
		ID: "1-2", Source: "ndrbridge://hq/detections", Type: "t", Subject: "é\"", Time: time.UnixMilli(1), Repaired: true,
	}, []byte(`{"detection":{"id":1}}`))
	require.NoError(f, err)
	f.Add(e.Structured())
	f.Add([]byte(`{"id":"\ud800","data":1}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := transform.Parse(b)
		if err != nil {
			return
		}
		require.True(t, e.ID != "" && e.Source != "" && e.Type != "", "read", e.Attributes, string(b))
		e.Data()
	})
}

func TestValuesForHeadersArePercentEncoded(t *testing.T) {
	for value, want := range map[string]string{
		"plain/1-2":  "plain/1-2",
		"Euro € 😀":   "Euro%20%E2%82%AC%20%F0%9F%98%80",
		`100% "x"`:   "100%25%20%22x%22",
		"a\r\nb\x7f": "a%0D%0Ab%7F",
	} {
		assert.Equal(t, transform.PercentEncode(value), want, value)
	}
}

func TestAnEventIsSentAsItsDocument(t *testing.T) {
	e, err := transform.New(transform.Attributes{ID: "1", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created"}, []byte(`{"detection":{}}`))
	require.NoError(t, err)
	assert.True(t, e.ContentType() == transform.ContentTypeStructured && bytes.Equal(e.Payload(), e.Structured()), "without a document", e.ContentType(), string(e.Payload()))
	document := []byte("CEF:0|")
	with := e.WithDocument("text/plain", document).Redeliver(1)
	assert.True(t, with.ContentType() == "text/plain" && bytes.Equal(with.Payload(), document), "with a document", with.ContentType(), string(with.Payload()))
	assert.True(t, bytes.Contains(with.Structured(), []byte(`"redelivered":true`)) && !bytes.Equal(with.Data(), document), string(with.Structured()))
}
