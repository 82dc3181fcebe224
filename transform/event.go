// Package transform turns an appliance's objects into CloudEvents, and encodes them for
// the transports.
//
// It requires valid JSON: the client validates an answer when it is received, and this
// package does not parse it a second time.
package transform

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ndrbridge/internal/jsonscan"

	"github.com/go-json-experiment/json/jsontext"
)

// The names of the streams, which replace {stream} in topics and subjects.
const (
	StreamDetections = "detections"
	StreamAudit      = "audit"
	// StreamRecords is the first part of the name of a query's stream; the records of
	// all queries are published under it.
	StreamRecords = "records"
	// StreamEvents is the stream of the bridge's own events.
	StreamEvents = "events"
)

// Attributes are the context attributes of a CloudEvent (CloudEvents 1.0.2,
// section 3) that the bridge sets. specversion is 1.0 and datacontenttype is
// application/json for every event.
type Attributes struct {
	ID           string    // unique within Source
	Source       string    // ndrbridge://<appliance>/<path>
	Type         string    // <prefix>.<object>.<action>
	Subject      string    // empty if absent
	Time         time.Time // zero if absent
	PartitionKey string    // events with the same key stay in order

	Appliance      string    // the appliance's name, or "bridge"
	RecordedTime   time.Time // when the bridge received it; zero if absent
	SeverityNumber int32     // OpenTelemetry severity; 0 if absent
	SeverityText   string    // Severity.String; empty if absent
	Repaired       bool      // bytes that were not UTF-8 were replaced in data
	Unenriched     string    // parts missing in data, separated by commas; empty if absent
	CausedBy       string    // CausedByWriteback, or empty if absent
	Redelivered    bool      // sent again on request, out of its stream's order
}

// CausedByWriteback is the CausedBy of a detection's version that only shows the
// bridge's own writes to the appliance. Consumers that write changes back to the
// appliance should ignore it.
const CausedByWriteback = "writeback"

// Event is one CloudEvent, encoded once when it is created. It is immutable: the
// attributes are a copy of those in the encoded form, and the slices that its methods
// return are shared and must not be modified.
type Event struct {
	Attributes
	structured []byte
	data       int    // index of the value of "data" in structured
	redelivery uint64 // see Redelivery

	contentType string // of document; empty if the event is sent as a CloudEvent
	document    []byte
}

// New encodes an event. data must be one valid JSON value; it is copied. New returns an
// error for an attribute that CloudEvents does not allow: an empty id, source or type,
// or text that is not UTF-8.
func New(a Attributes, data []byte) (Event, error) { return encode(a, data) }

// beforeData precedes the data of an encoded event.
const beforeData = `,"datacontenttype":"application/json","data":`

// encode is New for data in several parts.
func encode(a Attributes, data ...[]byte) (Event, error) {
	if a.ID == "" || a.Source == "" || a.Type == "" {
		return Event{}, fmt.Errorf("event %q of %q, type %q: id, source and type must not be empty", a.ID, a.Source, a.Type)
	}
	// The attributes have the precision of the encoded form.
	a.Time, a.RecordedTime = milliseconds(a.Time), milliseconds(a.RecordedTime)
	size := 512
	for _, part := range data {
		size += len(part)
	}
	b := append(make([]byte, 0, size), `{"specversion":"1.0"`...)
	for name, value := range a.all {
		b = appendName(b, name)
		switch name {
		case "severitynumber", "repaired", "redelivered": // an integer, a boolean
			b = append(b, value...)
		default:
			var err error
			if b, err = appendQuoted(b, value); err != nil {
				return Event{}, fmt.Errorf("event %q of %q: attribute %s: %w", a.ID, a.Source, name, err)
			}
		}
	}
	b = append(b, beforeData...)
	dataStart := len(b)
	for _, part := range data {
		b = append(b, part...)
	}
	return Event{Attributes: a, structured: append(b, '}'), data: dataStart}, nil
}

// Beginning returns how the structured form of every event begins whose ID begins with a text,
// which must be printable ASCII without quotes and backslashes.
func Beginning(id string) []byte { return []byte(`{"specversion":"1.0","id":"` + id) }

// appendName appends the name of an object's next member, as written between its quotes.
func appendName[T string | []byte](object []byte, name T) []byte {
	object = append(AppendComma(object), '"')
	object = append(object, name...)
	return append(object, `":`...)
}

// AppendComma appends a comma unless an object or array begins at the end of b.
func AppendComma(b []byte) []byte {
	if last := b[len(b)-1]; last == '{' || last == '[' {
		return b
	}
	return append(b, ',')
}

func milliseconds(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Millisecond)
}

// AppendTime appends a time as RFC 3339 in UTC with milliseconds, the appliance's unit.
// Package time is fast only for its own RFC3339 layout.
func AppendTime(dst []byte, t time.Time) []byte {
	dst = t.UTC().AppendFormat(dst, time.RFC3339)
	n := t.Nanosecond() / int(time.Millisecond)
	return append(dst[:len(dst)-len("Z")], '.', byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10), 'Z')
}

func formatTime(t time.Time) string { return string(AppendTime(make([]byte, 0, 32), t)) }

// appendQuoted appends a JSON string. Most strings need no escaping.
func appendQuoted(b []byte, text string) ([]byte, error) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return jsontext.AppendQuote(b, text)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"'), nil
}

// all yields the attributes that are present, with their CloudEvents names and
// canonical strings, except specversion and datacontenttype.
func (a *Attributes) all(yield func(name, value string) bool) {
	text := func(name, value string) bool { return value == "" || yield(name, value) }
	at := func(name string, t time.Time) bool { return t.IsZero() || yield(name, formatTime(t)) }
	_ = text("id", a.ID) && text("source", a.Source) && text("type", a.Type) && text("subject", a.Subject) &&
		at("time", a.Time) && text("partitionkey", a.PartitionKey) &&
		text("appliance", a.Appliance) && at("recordedtime", a.RecordedTime) &&
		(a.SeverityNumber == 0 || yield("severitynumber", strconv.Itoa(int(a.SeverityNumber)))) &&
		text("severitytext", a.SeverityText) &&
		(!a.Repaired || yield("repaired", "true")) &&
		text("unenriched", a.Unenriched) &&
		text("causedby", a.CausedBy) &&
		(!a.Redelivered || yield("redelivered", "true"))
}

func (a *Attributes) set(name, value string) (err error) {
	switch name {
	case "specversion", "datacontenttype", "traceparent": // the last one in events of an earlier version
	case "id":
		a.ID = value
	case "source":
		a.Source = value
	case "type":
		a.Type = value
	case "subject":
		a.Subject = value
	case "time":
		a.Time, err = time.Parse(time.RFC3339, value)
	case "partitionkey":
		a.PartitionKey = value
	case "appliance":
		a.Appliance = value
	case "recordedtime":
		a.RecordedTime, err = time.Parse(time.RFC3339, value)
	case "severitynumber":
		var n int64
		n, err = strconv.ParseInt(value, 10, 32)
		a.SeverityNumber = int32(n)
	case "severitytext":
		a.SeverityText = value
	case "repaired":
		a.Repaired = value == "true"
	case "unenriched":
		a.Unenriched = value
	case "causedby":
		a.CausedBy = value
	case "redelivered":
		a.Redelivered = value == "true"
	default:
		err = errors.New("unknown attribute")
	}
	return err
}

var errNotAnEvent = errors.New("not an event encoded by this bridge")

// Parse decodes the bytes of Event.Structured, the form in which events are stored. It
// is not a parser for CloudEvents in general: it requires data to be last, and does not
// parse it. The event retains b, which must not be modified afterwards.
func Parse(b []byte) (Event, error) {
	const name = `,"data":` // not in a string, where quotes are escaped
	head := bytes.Index(b, []byte(name))
	if head < 0 {
		return Event{}, errNotAnEvent
	}
	e := Event{structured: b, data: head + len(name)}
	shared := string(b[:head]) // one allocation for the texts of all attributes
	end, err := jsonscan.Object(b, func(name, rest []byte) (int, error) {
		begin := len(b) - len(rest)
		if begin > head {
			return len(rest) - 1, nil // the data, up to the brace at the end
		}
		size, err := jsonscan.Size(rest)
		if err != nil || begin+size > head {
			return 0, errNotAnEvent
		}
		text := shared[begin : begin+size]
		switch {
		case strings.IndexByte(text, '\\') >= 0:
			text = Text(rest[:size])
		case text[0] == '"':
			text = text[1 : size-1]
		}
		if err := e.set(string(name), text); err != nil {
			return 0, fmt.Errorf("event attribute %q: %w", name, err)
		}
		return size, nil
	})
	switch {
	case err != nil && !errors.Is(err, jsonscan.ErrSyntax):
		return Event{}, err
	case err != nil, end != len(b), e.data >= len(b)-1, e.ID == "" || e.Source == "" || e.Type == "":
		return Event{}, errNotAnEvent
	}
	return e, nil
}

// Structured returns the event in the JSON event format (structured mode). Its media
// type is ContentTypeStructured.
func (e Event) Structured() []byte { return e.structured }

// WithDocument returns the event with the document that is sent instead of the
// structured form: the event in another format. The event retains document, which must
// not be modified afterwards. contentType is its media type, and must not be empty.
func (e Event) WithDocument(contentType string, document []byte) Event {
	e.contentType, e.document = contentType, document
	return e
}

// Payload returns what sinks send for the event: its document, or the structured form if
// it has none.
func (e Event) Payload() []byte {
	if e.contentType != "" {
		return e.document
	}
	return e.structured
}

// ContentType returns the media type of Payload.
func (e Event) ContentType() string {
	if e.contentType != "" {
		return e.contentType
	}
	return ContentTypeStructured
}

// Data returns the event's data: the payload of binary mode.
func (e Event) Data() []byte { return e.structured[e.data : len(e.structured)-1] }

// Redeliver returns the event with its attribute redelivered set. n identifies this
// redelivery within its sink; it must be above 0.
func (e Event) Redeliver(n uint64) Event {
	if !e.Redelivered {
		const attribute = `,"redelivered":true`
		at := e.data - len(beforeData)
		b := make([]byte, 0, len(e.structured)+len(attribute))
		b = append(append(append(b, e.structured[:at]...), attribute...), e.structured[at:]...)
		e.structured, e.data = b, e.data+len(attribute)
		e.Redelivered = true
	}
	e.redelivery = n
	return e
}

// Redelivery returns the number given to Redeliver, or 0 for an event delivered in
// order. It is not part of the encoded form.
func (e Event) Redelivery() uint64 { return e.redelivery }

// Stream returns detections, audit, records or events: the value of {stream}.
func (e Event) Stream() string {
	_, rest, _ := strings.Cut(e.Source, "://")
	_, path, _ := strings.Cut(rest, "/")
	stream, _, _ := strings.Cut(path, "/")
	if stream == "auditlog" { // in events that an earlier version stored
		return StreamAudit
	}
	return stream
}

// When returns the event's time, else the time when the bridge received it; zero if
// both are unknown.
func (e Event) When() time.Time {
	if e.Time.IsZero() {
		return e.RecordedTime
	}
	return e.Time
}

// Action returns the last part of the type: the value of {action}.
func (e Event) Action() string { return e.Type[strings.LastIndexByte(e.Type, '.')+1:] }
