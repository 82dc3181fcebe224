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

// of returns the event's message, which is valid until the next call. With id it
// has the header by which a stream knows duplicates.
func (m *message) of(e transform.Event, mode transform.Mode, id bool) *nats.Msg {
	m.values = m.values[:0]
	if m.msg.Header == nil {
		m.msg.Header = nats.Header{}
		m.names = map[string]string{}
	}
	clear(m.msg.Header)
	if id {
		m.set(nats.MsgIdHdr, messageID(e))
	}
	if mode == transform.Structured {
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

// messageID is what a stream knows an event by: its source and its id, since ids
// are unique only within their source. One that is sent again by request must not
// be taken for a duplicate, but by its own repetition.
func messageID(e transform.Event) string {
	id := transform.PercentEncode(e.Source) + " " + transform.PercentEncode(e.ID)
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
