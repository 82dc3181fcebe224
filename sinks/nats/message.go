package nats

import (
	nats "github.com/nats-io/nats.go"

	"ndrbridge/transform"
)

const headerPrefix = "ce-"

// message makes the messages of a Send, one after the other, in the same memory:
// the connection copies each as it is published.
type message struct {
	msg    nats.Msg
	values []string // of headers
}

// of returns the event's message, which is valid until the next call. With id it
// has the header by which a stream knows duplicates.
func (m *message) of(e transform.Event, mode transform.Mode, id bool) *nats.Msg {
	m.values = m.values[:0]
	if m.msg.Header == nil {
		m.msg.Header = nats.Header{}
	}
	clear(m.msg.Header)
	if id {
		m.set(nats.MsgIdHdr, transform.PercentEncode(e.Source)+" "+transform.PercentEncode(e.ID))
	}
	if mode == transform.Structured {
		m.msg.Data = e.Structured()
		m.set("Content-Type", transform.ContentTypeStructured)
		return &m.msg
	}
	m.msg.Data = e.Data()
	m.set(headerPrefix+"datacontenttype", transform.ContentTypeData)
	for name, value := range e.Headers() {
		m.set(headerPrefix+name, transform.PercentEncode(value))
	}
	return &m.msg
}

func (m *message) set(name, value string) {
	m.values = append(m.values, value)
	n := len(m.values)
	m.msg.Header[name] = m.values[n-1 : n : n]
}
