package transform_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"pgregory.net/rapid"

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

func TestAnAuditEntryWithoutATimeIsIdentifiedByItsContent(t *testing.T) {
	event := func(object string) transform.Event {
		e, err := encoder.AuditEntry(parseAudit(t, object), recorded)
		if err != nil {
			t.Fatal(err)
		}
		if !e.Time.IsZero() || e.Subject != "5" || !strings.HasPrefix(e.ID, "5-") {
			t.Errorf("%s: %+v", object, e.Attributes)
		}
		return e
	}
	first := event(`{"id":5,"body":{"operation":"Login"}}`)
	if again := event(`{"id":5, "body":{"operation":"Login"}}`); again.ID != first.ID {
		t.Errorf("the same entry has the ids %s and %s", first.ID, again.ID)
	}
	if other := event(`{"id":5,"body":{"operation":"Logout"}}`); other.ID == first.ID {
		t.Errorf("two entries have the id %s", other.ID)
	}
	for _, object := range []string{
		`{"id":5,"time":"soon","occur_time":{}}`, `{"id":5,"time":0,"occur_time":-1}`,
		`{"id":5,"time":1e400,"occur_time":true}`, `{"id":5,"time":0.5}`, `{"id":5,"time":[1710001000123]}`,
	} {
		if e := parseAudit(t, object); e.Time != 0 {
			t.Errorf("%s has the time %d", object, e.Time)
		}
		event(object)
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

func TestTheSumDistinguishesEntriesByMeaning(t *testing.T) {
	const whole = `{"id":5,"body":{"a":1,"b":[1.5,"é/",null,true],"big":9007199254740993}}`
	sum := func(object string) string { return fmt.Sprintf("%x", parseAudit(t, object).Sum()) }
	for name, same := range map[string]string{
		"the order of members": `{"body":{"big":9007199254740993,"b":[1.5,"é/",null,true],"a":1},"id":5}`,
		"white space":          " {\n\"id\" :5 ,\t\"body\": {\"a\": 1, \"b\": [ 1.5, \"é/\" ,null,true ],\"big\":9007199254740993 } } ",
		"escapes":              `{"id":5,"body":{"\u0061":1,"b":[1.5,"\u00e9\/",null,true],"big":9007199254740993}}`,
	} {
		if sum(same) != sum(whole) {
			t.Errorf("%s changes the sum", name)
		}
	}
	seen := map[string]string{sum(whole): whole}
	for _, other := range []string{
		`{"id":5,"body":{"a":1,"b":[1.5,"é/",null,true],"big":9007199254740992}}`, // as a double it is the same
		`{"id":5,"body":{"a":1,"b":[1.5,"é/",null,true],"big":9007199254740994}}`,
		`{"id":5,"body":{"a":2,"b":[1.5,"é/",null,true],"big":9007199254740993}}`,
		`{"id":5,"body":{"a":"1","b":[1.5,"é/",null,true],"big":9007199254740993}}`,
		`{"id":5,"body":{"a":1,"b":["é/",1.5,null,true],"big":9007199254740993}}`,
		`{"id":5,"body":{"a":1,"b":[1.5,"e/",null,true],"big":9007199254740993}}`,
		`{"id":5,"body":{"a":1,"b":[1.5,"é/",null,false],"big":9007199254740993}}`,
		`{"id":5,"body":{"a":1,"b":[1.5,"é/",null],"big":9007199254740993}}`,
		`{"id":5,"body":{"a":1,"b":[1.5,"é/",null,true]}}`,
		`{"id":6,"body":{"a":1,"b":[1.5,"é/",null,true],"big":9007199254740993}}`,
		`{"id":5,"body":{"a":1,"b":[1.5000000000000000001,"é/",null,true],"big":9007199254740993}}`,
		`{"id":5,"half":"\ud800"}`, `{"id":5,"half":"\ud801"}`, // no Unicode, but JSON
		`{"id":5,"a":1,"a":2}`, `{"id":5,"a":2,"a":1}`, `{"id":5,"a":1}`,
	} {
		if fileVariant, ok := seen[sum(other)]; ok {
			t.Errorf("%s\nhas the sum of\n%s", other, fileVariant)
		}
		seen[sum(other)] = other
	}
	object := []byte(`{ "b" : 1 , "id" : 5 }`)
	e, err := transform.ParseAuditEntry(object, false)
	if err != nil {
		t.Fatal(err)
	}
	e.Sum()
	if string(object) != `{ "b" : 1 , "id" : 5 }` {
		t.Errorf("the sum changed the entry to %s", object)
	}
}

// shuffled writes a value with its members in any order and any white space.
func shuffled(b *strings.Builder, v any, r *rand.Rand) {
	space := func() { b.WriteString([]string{"", " ", "\n\t"}[r.IntN(3)]) }
	list := func(open, end byte, n int, write func(i int)) {
		b.WriteByte(open)
		for i, j := range r.Perm(n) {
			if open == '[' {
				j = i
			}
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			write(j)
			space()
		}
		b.WriteByte(end)
	}
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		list('{', '}', len(names), func(i int) {
			shuffled(b, names[i], r)
			space()
			b.WriteByte(':')
			space()
			shuffled(b, v[names[i]], r)
		})
	case []any:
		list('[', ']', len(v), func(i int) { shuffled(b, v[i], r) })
	default:
		scalar, _ := json.Marshal(v)
		b.Write(scalar)
	}
}

func TestTheSumDoesNotDependOnFormatting(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(2) })
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		write := func(body any) transform.AuditEntry {
			var b strings.Builder
			shuffled(&b, map[string]any{"id": 5, "time": 7, "body": body}, r)
			return parseAudit(t, b.String())
		}
		a, b := value.Draw(t, "a"), value.Draw(t, "b")
		if once, again := write(a), write(a); once.Sum() != again.Sum() {
			t.Fatalf("one meaning, two sums")
		}
		left, _ := json.Marshal(a)
		right, _ := json.Marshal(b)
		if same := write(a).Sum() == write(b).Sum(); same != (string(left) == string(right)) {
			t.Fatalf("%s and %s: the same sum: %t", left, right, same)
		}
	})
}
