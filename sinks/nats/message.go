package nats

import (
	"strconv"

	nats "github.com/nats-io/nats.go"

	"ndrbridge/transform"
)

const headerPrefix = "ce-"

// message builds the messages of a sink, one at a time, in memory that it reuses: the
// connection copies each when it is published.
type message struct {
	msg    nats.Msg
	values []string // of headers
}

// of returns the event's message, which is valid until the next call. If the sink has a
// stream, the message has the header with which the stream detects duplicates.
func (m *message) of(e transform.Event, o *Options) *nats.Msg {
	m.values = m.values[:0]
	if m.msg.Header == nil {
		m.msg.Header = nats.Header{}
	}
	clear(m.msg.Header)
	if o.Stream != "" {
		m.set(nats.MsgIdHdr, messageID(o.Sink, e))
	}
	if o.Mode == transform.Structured {
		m.msg.Data = e.Payload()
		m.set("Content-Type", e.ContentType())
		return &m.msg
	}
	m.msg.Data = e.Data()
	m.set(headerPrefix+"datacontenttype", transform.ContentTypeData)
	for name, value := range e.Headers() {
		m.set(headerPrefix+name, transform.PercentEncode(value))
	}
	return &m.msg
}

// messageID returns the id with which a stream detects duplicates. It consists of the
// sink's name, because several sinks may share a stream, the event's source, and the
// event's id, which is unique only within the source. For a redelivered event, the number
// of the redelivery follows, so that it is not dropped as a duplicate of the first
// delivery. The parts are percent-encoded and separated by a space.
func messageID(sink string, e transform.Event) string {
	id := transform.PercentEncode(sink) + " " + transform.PercentEncode(e.Source) + " " + transform.PercentEncode(e.ID)
	if n := e.Redelivery(); n > 0 {
		id += " r" + strconv.FormatUint(n, 10)
	}
	return id
}

// set sets a header.
func (m *message) set(name, value string) {
	m.values = append(m.values, value)
	n := len(m.values)
	m.msg.Header[name] = m.values[n-1 : n : n]
}
