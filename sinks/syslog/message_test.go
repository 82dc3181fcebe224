package syslog

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/leodido/go-syslog/v4/rfc5424"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

func newEvent(t testing.TB, a transform.Attributes) transform.Event {
	t.Helper()
	e := require.Value(transform.New(a, []byte(`{}`)))(t)
	return e
}

func encoder(t testing.TB, o Options) *message {
	t.Helper()
	o.Address = "siem.example:6514"
	s := New(o)
	return &s.message
}

func TestAnEventBecomesAMessage(t *testing.T) {
	at := time.Date(2026, 9, 1, 12, 0, 0, 123e6, time.FixedZone("", 7200))
	base := transform.Attributes{
		ID: "1-2", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated", Time: at, SeverityNumber: 21,
	}
	change := func(f func(*transform.Attributes)) transform.Event {
		a := base
		f(&a)
		return newEvent(t, a)
	}
	const data = `[ndrbridge@32473 id="1-2" source="ndrbridge://hq/detections" type="io.ndrbridge.detection.updated"]`
	for _, test := range []struct {
		name    string
		event   transform.Event
		options Options
		want    string // the beginning
	}{
		{"critical", change(func(*transform.Attributes) {}), Options{}, "<130>1 2026-09-01T10:00:00.123Z bridge-1 ndrbridge - updated " + data + ` {"specversion"`},
		{"high", change(func(a *transform.Attributes) { a.SeverityNumber = 17 }), Options{}, "<131>1 "},
		{"medium", change(func(a *transform.Attributes) { a.SeverityNumber = 13 }), Options{}, "<132>1 "},
		{"low", change(func(a *transform.Attributes) { a.SeverityNumber = 9 }), Options{}, "<133>1 "},
		{"an event without a severity", change(func(a *transform.Attributes) { a.SeverityNumber = 0 }), Options{}, "<134>1 "},
		{"another facility and name", change(func(*transform.Attributes) {}), Options{Facility: "kern", AppName: "ndr"}, "<2>1 2026-09-01T10:00:00.123Z bridge-1 ndr - updated "},
		{"the last facility", change(func(*transform.Attributes) {}), Options{Facility: "local7"}, "<186>1 "},
		{"no time", change(func(a *transform.Attributes) { a.Time = time.Time{} }), Options{}, "<130>1 - bridge-1 "},
		{"only the time of receipt", change(func(a *transform.Attributes) { a.Time, a.RecordedTime = time.Time{}, at }), Options{}, "<130>1 2026-09-01T10:00:00.123Z "},
		{
			"characters that end a value", change(func(a *transform.Attributes) { a.ID = `a"b\c]d é` }), Options{},
			`<130>1 2026-09-01T10:00:00.123Z bridge-1 ndrbridge - updated [ndrbridge@32473 id="a\"b\\c\]d é" source=`,
		},
		{
			"an action that is long or not ASCII", change(func(a *transform.Attributes) { a.Type = "x.é b" + strings.Repeat("c", 100) }), Options{},
			"<130>1 2026-09-01T10:00:00.123Z bridge-1 ndrbridge - __b" + strings.Repeat("c", 28) + " [",
		},
		{"no action", change(func(a *transform.Attributes) { a.Type = "x." }), Options{}, "<130>1 2026-09-01T10:00:00.123Z bridge-1 ndrbridge - - ["},
		{
			"a document in another format", change(func(*transform.Attributes) {}).WithDocument("text/plain", []byte("CEF:0|a|b")), Options{},
			"<130>1 2026-09-01T10:00:00.123Z bridge-1 ndrbridge - updated " + data + " CEF:0|a|b",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.options.Hostname = "bridge-1"
			got := string(encoder(t, test.options).append(nil, test.event))
			assert.True(t, strings.HasPrefix(got, test.want), got, test.want)
		})
	}
}

func TestAMessageIsOneLine(t *testing.T) {
	for _, e := range sinktest.Awkward() {
		got := string(encoder(t, Options{}).append(nil, e))
		assert.False(t, strings.ContainsAny(got, "\r\n"), got)
	}
}

// FuzzMessage has another implementation read the header and the structured data, whatever
// the event's attributes are.
func FuzzMessage(f *testing.F) {
	f.Add("1-2", "ndrbridge://hq/detections", "io.ndrbridge.detection.updated", int64(1789207200123), int32(13), "hq-1")
	f.Add(`"]\ [`, "a\nb\x00", "é. ", int64(-1), int32(-5), "日本")
	f.Add("\\\"", "\ufeff", ".", int64(1)<<62, int32(99), "")
	f.Fuzz(func(t *testing.T, id, source, kind string, at int64, severity int32, host string) {
		e, err := transform.New(transform.Attributes{ID: id, Source: source, Type: kind, Time: time.UnixMilli(at), SeverityNumber: severity}, []byte(`[1]`))
		if err != nil {
			t.Skip() // not an event
		}
		m := message{names: " " + printable(host, maxHostname) + " ndrbridge - "}
		text := m.append(nil, e)
		parsed, err := rfc5424.NewParser().Parse(text)
		require.NoError(t, err, string(text))
		got := parsed.(*rfc5424.SyslogMessage)
		data := (*got.StructuredData)[structuredData]
		for name, want := range map[string]string{"id": id, "source": source, "type": kind} {
			assert.Equal(t, data[name], withoutControls(want), name, "is , not", want)
		}
		assert.Equal(t, len(*got.StructuredData), 1, "structured data")
		assert.Equal(t, len(data), 3)
		assert.True(t, *got.Message == string(e.Structured()) && utf8.Valid(text), "the message", *got.Message, string(e.Structured()))
		when := e.When()
		assert.True(t, got.Timestamp == nil || got.Timestamp.Equal(when), "the time", got.Timestamp, when)
	})
}

func withoutControls(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, text)
}
