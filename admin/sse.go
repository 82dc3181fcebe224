package admin

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"ndrbridge/transform"
)

// The stream of events uses server-sent events (the HTML standard, section 9.2).

// keepAlive is a comment, which readers ignore.
const keepAlive = ":\n\n"

// problemEvent is the type of the message that contains, as a problem document, the
// reason why the stream ends. An event's type always contains a dot.
const problemEvent = "problem"

// message is one message of a stream of events.
type message struct {
	id, event string
	data      []byte
}

func eventMessage(e transform.Event) message { return message{e.ID, e.Type, e.Structured()} }

// appendTo appends the message to b and returns the result. Its data, which is JSON,
// is put on one line.
func (m message) appendTo(b []byte) []byte {
	b = appendField(b, "id", m.id)
	b = appendField(b, "event", m.event)
	b = append(b, "data: "...)
	begin := len(b)
	b = append(b, m.data...)
	// In JSON, line breaks occur only between tokens, where a space is equivalent.
	for i, c := range b[begin:] {
		if c == '\n' || c == '\r' {
			b[begin+i] = ' '
		}
	}
	return append(b, "\n\n"...)
}

// appendField appends a field. It omits an empty value and one that does not fit on a
// line.
func appendField(b []byte, name, value string) []byte {
	if value == "" || strings.ContainsAny(value, "\r\n\x00") {
		return b
	}
	return append(append(append(append(b, name...), ": "...), value...), '\n')
}

// readMessage returns the next message that has data. It returns io.EOF if the stream
// ended between two messages, and io.ErrUnexpectedEOF if it ended within one.
func readMessage(r *bufio.Reader) (message, error) {
	var m message
	for begun := false; ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) && (begun || len(line) > 0) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return message{}, err
		}
		line = bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'})
		begun = len(line) > 0
		if !begun {
			if m.data != nil {
				return m, nil
			}
			m = message{}
			continue
		}
		// A comment is a field without a name.
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "id":
			m.id = string(value)
		case "event":
			m.event = string(value)
		case "data":
			if m.data != nil {
				value = append(append(m.data, '\n'), value...)
			}
			m.data = value
		}
	}
}
