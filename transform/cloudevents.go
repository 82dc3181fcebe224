package transform

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
)

// The media types of the JSON event format, the JSON batch format and of an
// event's data (CloudEvents 1.0.2: JSON format, sections 3 and 4).
const (
	ContentTypeStructured = "application/cloudevents+json"
	ContentTypeBatch      = "application/cloudevents-batch+json"
	ContentTypeData       = "application/json"
)

// Mode is how a transport carries an event.
type Mode string

// The modes of CloudEvents' protocol bindings. Batch is for HTTP only.
const (
	Structured Mode = "structured" // attributes and data in one JSON object
	Binary     Mode = "binary"     // attributes in headers, data as the body
	Batch      Mode = "batch"      // a JSON array of structured events
)

// Headers yields the attributes of binary mode, specversion first, under their names
// without the binding's prefix (HTTP and NATS: "ce-", Kafka: "ce_"). It omits
// datacontenttype: bindings carry it as the content type, which is ContentTypeData.
// Values are not percent-encoded.
func (e Event) Headers() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		if yield("specversion", "1.0") {
			e.all(yield)
		}
	}
}

// PercentEncode encodes an attribute's value for an HTTP or NATS header. It encodes
// everything but printable ASCII, and also the space, the double quote and the percent
// sign (CloudEvents 1.0.2, HTTP binding, section 3.1.3.2).
func PercentEncode(value string) string {
	escape := func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '%' }
	if !strings.ContainsFunc(value, escape) {
		return value
	}
	var b strings.Builder
	for _, c := range []byte(value) {
		if escape(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// AppendLine appends an event's payload to dst as one line, with a newline. It drops line
// breaks and the indentation after them: in JSON these are only white space between
// tokens, because strings escape them, and documents of text have none.
func AppendLine(dst, payload []byte) []byte {
	if bytes.IndexByte(payload, '\n') < 0 && bytes.IndexByte(payload, '\r') < 0 {
		dst = append(dst, payload...)
		return append(dst, '\n')
	}
	broken := false
	for _, c := range payload {
		switch c {
		case '\n', '\r':
			broken = true
			continue
		case ' ', '\t':
			if broken {
				continue
			}
		}
		broken = false
		dst = append(dst, c)
	}
	return append(dst, '\n')
}
