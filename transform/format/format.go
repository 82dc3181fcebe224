// Package format encodes events in the formats of log management systems: OCSF 1.8.0,
// ECS 9.4.0, CEF:0 and LEEF:2.0. What goes where is declared by the files in tables.
package format

import (
	"bytes"
	"fmt"
	"slices"

	"ndrbridge/transform"
)

// Name is a value of the key format in a sink's configuration.
type Name string

// The formats.
const (
	CloudEvents Name = "cloudevents" // as the event is stored
	OCSF        Name = "ocsf"        // Open Cybersecurity Schema Framework 1.8.0, JSON
	ECS         Name = "ecs"         // Elastic Common Schema 9.4.0, JSON
	CEF         Name = "cef"         // Common Event Format, CEF:0, a line of text
	LEEF        Name = "leef"        // Log Event Extended Format, LEEF:2.0, a line of text
)

// formats are the formats, in the order in which they are documented: the beginning of every
// document, and what makes an encoder, unless events are sent as they are stored.
var formats = []struct {
	name       Name
	start      string
	newEncoder func(Options) *Encoder
}{
	{CloudEvents, `{"specversion":`, nil},
	{OCSF, `{"activity_id":`, func(o Options) *Encoder { return newJSONEncoder(o, "ocsf", "unmapped", raw) }},
	{ECS, `{"@timestamp":`, func(o Options) *Encoder { return newJSONEncoder(o, "ecs", "ndrbridge.unmapped", flatValue) }},
	{CEF, "CEF:0|", newCEF},
	{LEEF, "LEEF:2.0|", newLEEF},
}

// Names returns all formats, in the order in which they are documented.
func Names() (names []Name) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// IsKnown reports whether n is one of the formats.
func (n Name) IsKnown() bool { return slices.Contains(Names(), n) }

// Start returns the beginning of every document of the format, by which a line of a file
// is recognized as a document. It returns "" for an unknown format.
func (n Name) Start() string {
	for _, f := range formats {
		if f.name == n {
			return f.start
		}
	}
	return ""
}

// IsText reports whether a document is a line of text instead of a JSON object.
func (n Name) IsText() bool { return n == CEF || n == LEEF }

// Options configure an Encoder.
type Options struct {
	Version string // of the bridge, which documents name as their producer
}

// Encoder encodes events in one format. It must not be used by several goroutines at
// once.
type Encoder struct {
	contentType string
	plans       []*plan
	write       func(p *plan, dst []byte, s *source) []byte
	s           source
	document    []byte // buffer
}

// New returns the encoder of a format. It returns an error for CloudEvents, which need
// none, and for an unknown format.
func New(n Name, o Options) (*Encoder, error) {
	for _, f := range formats {
		if f.name == n && f.newEncoder != nil {
			return f.newEncoder(o), nil
		}
	}
	return nil, fmt.Errorf("format %q is not one of %v that have an encoder", n, Names()[1:])
}

// newJSONEncoder returns the encoder of a format with the tables of a file. rest is the field
// of the leftovers, and restAs converts them.
func newJSONEncoder(o Options, file, rest string, restAs conversion) *Encoder {
	tables := newReader(o, file).tables
	for i := range tables {
		tables[i].rest, tables[i].restAs = rest, restAs
	}
	return newEncoder("application/json", tables, (*plan).appendDocument)
}

func newEncoder(contentType string, tables []table, write func(*plan, []byte, *source) []byte) *Encoder {
	c := &Encoder{contentType: contentType, write: write}
	for _, t := range tables {
		c.plans = append(c.plans, compile(t))
	}
	return c
}

// Encode returns e with its document. Values that do not fit their field are elsewhere in
// the document; there is no event that cannot be encoded.
func (c *Encoder) Encode(e transform.Event) transform.Event {
	p := c.planOf(&e)
	c.s.read(&e, p)
	c.document = c.write(p, c.document[:0], &c.s)
	c.s.event = nil
	document := bytes.Clone(c.document)
	if cap(c.document) > maxBuffer || c.s.isLarge() {
		c.document, c.s = nil, source{}
	}
	return e.WithDocument(c.contentType, document)
}

// maxBuffer is the largest buffer that is kept for the next event.
const maxBuffer = 1 << 20

// planOf returns the first plan that applies to an event. The last one of a stream applies
// to all of its events, and the last of all to any event.
func (c *Encoder) planOf(e *transform.Event) *plan {
	stream := e.Stream()
	for _, p := range c.plans {
		if p.stream == stream && p.where.selects(e) {
			return p
		}
	}
	return c.plans[len(c.plans)-1]
}

// selects reports whether the condition selects an event.
func (w condition) selects(e *transform.Event) bool {
	if w.source == "" {
		return true
	}
	var value []byte
	switch w.source {
	case "event.subject":
		value = []byte(e.Subject)
	case "event.action":
		value = []byte(e.Action())
	default:
		found := lookup(e.Data(), w.source)
		if found == nil {
			return false
		}
		value, _ = unquoted(nil, found)
	}
	if len(value) > maxSelected {
		return false
	}
	value = lower(value)
	return slices.Contains(w.is, string(value)) || slices.ContainsFunc(w.has, func(word string) bool {
		return bytes.Contains(value, []byte(word))
	})
}

// maxSelected is the longest value that a condition selects, in bytes.
const maxSelected = 1024
