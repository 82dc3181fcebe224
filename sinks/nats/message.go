package nats

import (
	"strconv"

	nats "github.com/nats-io/nats.go"

	"ndrbridge/transform"
)

const headerPrefix = "ce-"

// message makes the messages of a sink, one after the other, in the same memory:
// the connection copies each as it is published.
type message struct {
	msg    nats.Msg
	values []string          // of headers
	names  map[string]string // header names by attribute
}

// of returns the event's message, which is valid until the next call. If the sink has
// a stream, it has the header by which a stream knows duplicates.
func (m *message) of(e transform.Event, o *Options) *nats.Msg {
	m.values = m.values[:0]
	if m.msg.Header == nil {
		m.msg.Header = nats.Header{}
		m.names = map[string]string{}
	}
	clear(m.msg.Header)
	if o.Stream != "" {
		m.set(nats.MsgIdHdr, messageID(o.Sink, e))
	}
	if o.Mode == transform.Structured {
		m.msg.Data = e.Structured()
		m.set("Content-Type", transform.ContentTypeStructured)
		return &m.msg
	}
	m.msg.Data = e.Data()
	m.set(headerPrefix+"datacontenttype", transform.ContentTypeData)
	for name, value := range e.Headers() {
		m.set(m.header(name), transform.PercentEncode(value))
	}
	return &m.msg
}

// messageID returns the id by which a stream knows duplicates: the sink, since a
// stream may have several and drops duplicates among all of its messages, the event's
// source, and its id, which is unique only within the source. A redelivered event has
// its number behind these, so that it is not dropped as a duplicate of the first
// delivery. No part can hold the space between them: it is percent-encoded.
func messageID(sink string, e transform.Event) string {
	id := transform.PercentEncode(sink) + " " + transform.PercentEncode(e.Source) + " " + transform.PercentEncode(e.ID)
	if n := e.Redelivery(); n > 0 {
		id += " r" + strconv.FormatUint(n, 10)
	}
	return id
}

// header is the name of an attribute's header.
func (m *message) header(attribute string) string {
	name, ok := m.names[attribute]
	if !ok {
		name = headerPrefix + attribute
		m.names[attribute] = name
	}
	return name
}

func (m *message) set(name, value string) {
	m.values = append(m.values, value)
	n := len(m.values)
	m.msg.Header[name] = m.values[n-1 : n : n]
}
