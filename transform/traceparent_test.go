package transform_test

import (
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

func TestTracingOnlyAddsATraceParent(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	recorded := time.UnixMilli(1758000000123)
	detection := []byte(`{"id":25769804127,"mod_time":1758000000000,"title":"DNS tunnel","risk_score":83}`)
	for _, event := range []struct {
		name string
		made func(c transform.Encoder) (transform.Event, error)
	}{
		{"of a detection", func(c transform.Encoder) (transform.Event, error) {
			d, err := transform.DetectionOf(detection, jsonscan.Members(detection), false)
			if err != nil {
				return transform.Event{}, err
			}
			return c.Detection(d, transform.Observation{Created: true, Repeat: 1, Recorded: recorded})
		}},
		{"of an audit log entry", func(c transform.Encoder) (transform.Event, error) {
			entry, err := transform.ParseAuditEntry([]byte(`{"id":7,"time":1758000000000,"body":{"user":"ana"}}`), false)
			if err != nil {
				return transform.Event{}, err
			}
			return c.AuditEntry(entry, recorded)
		}},
		{"of a record", func(c transform.Encoder) (transform.Event, error) {
			r := transform.ParseRecord([]byte(`{"_index":"a","_id":"b","_type":"~dns","_source":{"timestamp":1758000000000.5}}`), false)
			return c.Record("dns", r, recorded)
		}},
		{"of the bridge's own", func(c transform.Encoder) (transform.Event, error) {
			return c.AuditGap(transform.AuditGap{Reason: transform.GapPurged, Missing: 3}, recorded)
		}},
	} {
		t.Run("an event "+event.name, func(t *testing.T) {
			c := transform.Encoder{TypePrefix: "io.ndrbridge", Appliance: "hq"}
			plain, err := event.made(c)
			if err != nil {
				t.Fatal(err)
			}
			c.TraceParent = parent
			traced, err := event.made(c)
			if err != nil {
				t.Fatal(err)
			}
			if traced.TraceParent != parent || traced.ID != plain.ID {
				t.Errorf("id %q, trace parent %q; want %q, %q", traced.ID, traced.TraceParent, plain.ID, parent)
			}
			without := strings.Replace(string(traced.Structured()), `,"traceparent":"`+parent+`"`, "", 1)
			if without != string(plain.Structured()) {
				t.Errorf("%s\nbut for its trace parent is not\n%s", traced.Structured(), plain.Structured())
			}
			headers := map[string]string{}
			for name, value := range traced.Headers() {
				headers[name] = value
			}
			if headers["traceparent"] != parent {
				t.Errorf("the attributes of binary mode are %v", headers)
			}
		})
	}
}
