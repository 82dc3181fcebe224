package transform_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"ndrbridge/transform"
)

// recorded is when the bridge saw what these tests make events of.
var recorded = time.Date(2026, 11, 21, 1, 2, 3, 4e6, time.UTC)

// expect checks an event's attributes and data, and that they are unchanged after
// parsing by the bridge and by the CloudEvents SDK.
func expect(t *testing.T, e transform.Event, want transform.Attributes, data string) {
	t.Helper()
	if e.Attributes != want {
		t.Errorf("attributes\n%+v\nwant\n%+v", e.Attributes, want)
	}
	if string(e.Data()) != data {
		t.Errorf("data\n%s\nwant\n%s", e.Data(), data)
	}
	read, err := transform.Parse(e.Structured())
	if err != nil {
		t.Fatalf("%v: %s", err, e.Structured())
	}
	if read.Attributes != want || string(read.Data()) != data {
		t.Errorf("read back\n%+v\n%s", read.Attributes, read.Data())
	}
	var other cloudevents.Event
	if err := json.Unmarshal(e.Structured(), &other); err != nil {
		t.Fatalf("%v: %s", err, e.Structured())
	}
	if err := other.Validate(); err != nil {
		t.Errorf("%v: %s", err, e.Structured())
	}
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
		if fmt.Sprint(got) != value {
			t.Errorf("the SDK has %s %v, want %s", name, got, value)
		}
	}
	if string(other.Data()) != data {
		t.Errorf("the SDK has data\n%s", other.Data())
	}
}

func parseAudit(t interface {
	Helper()
	Fatal(...any)
}, object string) transform.AuditEntry {
	t.Helper()
	e, err := transform.ParseAuditEntry([]byte(object), false)
	if err != nil {
		t.Fatal(err)
	}
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
			entry, err := transform.ParseAuditEntry([]byte(c.object), c.repaired)
			if err != nil {
				t.Fatal(err)
			}
			e, err := encoder.AuditEntry(entry, recorded)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, c.time)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, e, transform.Attributes{
				ID: c.id, Source: "ndrbridge://hq/auditlog", Type: "io.ndrbridge.audit.logged",
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
		e, err := encoder.AuditEntry(parseAudit(t, object), recorded)
		if err != nil {
			t.Fatal(err)
		}
		if !e.Time.IsZero() || e.Subject != "5" || e.ID != "5-0" {
			t.Errorf("%s: %+v", object, e.Attributes)
		}
	}
}

func TestAnAuditEntryNeedsAnID(t *testing.T) {
	for _, object := range []string{
		`{}`, `{"time":5}`, `{"id":null}`, `{"id":"five"}`, `{"id":5.0}`, `{"id":9223372036854775808}`, `{"id":[5]}`, `{"body":{"id":5}}`,
	} {
		if e, err := transform.ParseAuditEntry([]byte(object), false); err == nil || !strings.HasPrefix(err.Error(), "id: ") {
			t.Errorf("%s: entry %d, error %v", object, e.ID, err)
		}
	}
	if e := parseAudit(t, `{"id":1,"id":9223372036854775807}`); e.ID != 9223372036854775807 {
		t.Errorf("of two ids the last counts, as with any decoder, and not %d", e.ID)
	}
}
