package format

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// source holds what the rows of a table read of one event. Its slices are reused for
// the next one.
type source struct {
	event  *transform.Event
	plan   *plan
	values [][]byte // JSON, by slot; nil if absent or null
	used   []bool   // by slot: the value is in the document
	rest   []member // values that no row reads
	arena  []byte   // values that are not part of the event's bytes

	elements [][]byte       // of an array, see arrayReader
	names    map[string]int // of the leftovers, with the last number of each, see unusedName

	text []byte // buffer of lineFormat
}

// member is a value of the data and its path.
type member struct {
	path  string
	value []byte
}

// isLarge reports whether the slices and maps take much memory.
func (s *source) isLarge() bool {
	const most = 10_000
	return cap(s.rest)+cap(s.elements) > most || len(s.names) > most
}

// attributes are the sources that are computed from an event's attributes. Each appends
// a JSON value, or nothing if it is absent.
var attributes = map[string]func(dst []byte, s *source) []byte{
	"event.id":          func(dst []byte, s *source) []byte { return appendText(dst, s.event.ID) },
	"event.source":      func(dst []byte, s *source) []byte { return appendText(dst, s.event.Source) },
	"event.type":        func(dst []byte, s *source) []byte { return appendText(dst, s.event.Type) },
	"event.subject":     func(dst []byte, s *source) []byte { return appendPresent(dst, s.event.Subject) },
	"event.appliance":   func(dst []byte, s *source) []byte { return appendText(dst, s.event.Appliance) },
	"event.action":      func(dst []byte, s *source) []byte { return appendText(dst, s.event.Action()) },
	"event.stream":      func(dst []byte, s *source) []byte { return appendText(dst, s.event.Stream()) },
	"event.causedby":    func(dst []byte, s *source) []byte { return appendPresent(dst, s.event.CausedBy) },
	"event.unenriched":  func(dst []byte, s *source) []byte { return appendPresent(dst, s.event.Unenriched) },
	"event.repaired":    func(dst []byte, s *source) []byte { return appendTrue(dst, s.event.Repaired) },
	"event.redelivered": func(dst []byte, s *source) []byte { return appendTrue(dst, s.event.Redelivered) },
	// The event's time, else when the bridge received it, in milliseconds since the epoch.
	"event.when": func(dst []byte, s *source) []byte {
		if at := s.event.When(); !at.IsZero() {
			return strconv.AppendInt(dst, at.UnixMilli(), 10)
		}
		return append(dst, '0')
	},
	"event.recordedtime": func(dst []byte, s *source) []byte {
		if at := s.event.RecordedTime; !at.IsZero() {
			return strconv.AppendInt(dst, at.UnixMilli(), 10)
		}
		return dst
	},
	"event.summary":  func(dst []byte, s *source) []byte { return appendPresent(dst, s.event.FollowUpSummary()) },
	"event.severity": func(dst []byte, s *source) []byte { return appendPresent(dst, s.event.SeverityWord()) },
}

func appendTrue(dst []byte, flag bool) []byte {
	if !flag {
		return dst
	}
	return append(dst, "true"...)
}

func appendPresent(dst []byte, text string) []byte {
	if text == "" {
		return dst
	}
	return appendText(dst, text)
}

// read reads an event for the rows of p.
func (s *source) read(e *transform.Event, p *plan) {
	s.event, s.plan = e, p
	s.values = append(s.values[:0], p.constants...)
	s.used = slices.Grow(s.used[:0], len(s.values))[:len(s.values)]
	clear(s.used)
	s.rest, s.arena = s.rest[:0], s.arena[:0]
	if data := bytes.TrimSpace(e.Data()); bytes.HasPrefix(data, []byte("{")) {
		s.object(data, p.root, false)
	} else if len(data) > 0 && string(data) != "null" {
		s.rest = append(s.rest, member{"data", data})
	}
	for _, c := range p.computed {
		start := len(s.arena)
		if s.arena = c.value(s.arena, s); len(s.arena) > start {
			s.values[c.slot] = s.arena[start:len(s.arena):len(s.arena)]
		}
	}
	for _, r := range p.arrays {
		s.array(r)
	}
}

// object reads the members of an object whose node is n. Members that no row reads are
// leftovers, unless a row reads the object itself or one around it.
func (s *source) object(object []byte, n *node, isRead bool) {
	for name, value := range jsonscan.Members(object) {
		child := n.children[string(name)]
		hasChildren := child != nil && child.children != nil
		if hasChildren && value[0] == '{' {
			s.object(value, child, isRead || child.slot >= 0)
		}
		switch {
		case string(value) == "null":
		case child == nil:
			s.leave(value, n, name, isRead)
		case child.slot >= 0 && (hasChildren || !strings.HasPrefix(n.path, "record.")):
			s.set(child.slot, value, n, name)
		case child.slot >= 0:
			s.set(child.slot, unwrap(value), n, name)
		case !hasChildren || value[0] != '{':
			s.leave(value, n, name, isRead)
		}
	}
}

// leave makes a member of an object a leftover, unless it is in an object that a row reads.
func (s *source) leave(value []byte, of *node, name []byte, isRead bool) {
	if !isRead {
		s.rest = append(s.rest, member{of.path + string(name), value})
	}
}

// set sets a slot. If a name occurs twice, the first value is one that no row reads.
func (s *source) set(slot int, value []byte, of *node, name []byte) {
	if before := s.values[slot]; before != nil {
		s.rest = append(s.rest, member{of.path + string(name), before})
	}
	s.values[slot] = value
}

// shortened returns the path of a value as documents show it: without the name of the
// object that the event is about.
func shortened(path string) string {
	for _, object := range []string{"detection.", "audit.", "record._source.", "record."} {
		if rest, found := strings.CutPrefix(path, object); found {
			return rest
		}
	}
	return path
}

// unwrap returns the value of a record's field of the form {"type": …, "value": …}, and
// any other value as it is.
func unwrap(value []byte) []byte {
	if value[0] != '{' {
		return value
	}
	var kind, inner []byte
	n := 0
	for name, v := range jsonscan.Members(value) {
		switch n++; string(name) {
		case "type":
			kind = v
		case "value":
			inner = v
		}
	}
	if n == 2 && kind != nil && kind[0] == '"' && inner != nil && string(inner) != "null" {
		return inner
	}
	return value
}

// array reads the values that r wants from an array's elements.
func (s *source) array(r *arrayReader) {
	array := s.values[r.array]
	if len(array) == 0 || array[0] != '[' {
		return
	}
	s.elements = s.elements[:0]
	for element := range jsonscan.Elements(array) {
		start := len(s.elements)
		for name, value := range jsonscan.Members(element) {
			i, found := r.names[string(name)]
			if !found || string(value) == "null" {
				continue
			}
			if len(s.elements) == start {
				s.elements = slices.Grow(s.elements, len(r.names))[:start+len(r.names)]
				clear(s.elements[start:])
			}
			s.elements[start+i] = value
		}
	}
	for _, w := range r.wanted {
		if w.filter < 0 {
			s.values[w.slot] = s.all(w.member, len(r.names))
			continue
		}
		for at := 0; at < len(s.elements); at += len(r.names) {
			if string(s.elements[at+w.filter]) == w.value {
				s.values[w.slot] = s.elements[at+w.member]
				break
			}
		}
	}
}

// all returns a JSON array of the values of one member of all elements, each once, or
// nil if there are none.
func (s *source) all(member, members int) []byte {
	start := len(s.arena)
	s.arena = append(s.arena, '[')
	for at := member; at < len(s.elements); at += members {
		value := s.elements[at]
		// An element is compared with few others: more than maxCompared are written
		// even if they repeat.
		repeated := false
		for i, n := member, 0; i < at && n < maxCompared && !repeated; i, n = i+members, n+1 {
			repeated = bytes.Equal(s.elements[i], value)
		}
		if value == nil || repeated {
			continue
		}
		if len(s.arena) > start+1 {
			s.arena = append(s.arena, ',')
		}
		s.arena = append(s.arena, value...)
	}
	if len(s.arena) == start+1 {
		s.arena = s.arena[:start]
		return nil
	}
	s.arena = append(s.arena, ']')
	return s.arena[start:len(s.arena):len(s.arena)]
}

const maxCompared = 64

// append appends the value of a field to dst, and reports whether it has one.
func (f *field) append(dst []byte, s *source) (_ []byte, ok bool) {
	for _, slots := range f.sources {
		value := s.values[slots[0]]
		if len(slots) > 1 {
			value = s.together(slots)
		}
		if value == nil {
			continue
		}
		start := len(dst)
		var fit fit
		if dst, fit = f.as(dst, value); fit == none {
			dst = dst[:start]
			continue
		}
		for _, slot := range slots {
			s.used[slot] = s.used[slot] || fit == whole
		}
		return dst, true
	}
	return dst, false
}

// together returns an array of the values in some slots, or nil if all are absent.
func (s *source) together(slots []int) []byte {
	start, present := len(s.arena), false
	for i, slot := range slots {
		s.arena = append(s.arena, "[,"[min(i, 1)])
		if value := s.values[slot]; value != nil {
			s.arena = append(s.arena, value...)
			present = true
		} else {
			s.arena = append(s.arena, "null"...)
		}
	}
	if !present {
		s.arena = s.arena[:start]
		return nil
	}
	s.arena = append(s.arena, ']')
	return s.arena[start:len(s.arena):len(s.arena)]
}

// leftovers yields the values of the data that are not, or only in part, in a field of the
// document. It omits values without content: empty strings, arrays and objects.
func (s *source) leftovers(p *plan) func(yield func(path string, value []byte) bool) {
	return func(yield func(string, []byte) bool) {
		for _, m := range s.rest {
			if !isEmpty(m.value) && !yield(shortened(m.path), m.value) {
				return
			}
		}
		for _, r := range p.readable {
			value := s.values[r.slot]
			if value == nil || s.used[r.slot] || isEmpty(value) || r.within >= 0 && s.values[r.within] != nil {
				continue
			}
			if !yield(r.path, value) {
				return
			}
		}
	}
}

func isEmpty(value []byte) bool {
	return len(value) == 2 && (value[0] == '"' || value[0] == '{' || value[0] == '[')
}

// lookup returns the value at a path of an object, or nil.
func lookup(object []byte, path string) []byte {
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		var found []byte
		for n, value := range jsonscan.Members(object) {
			if string(n) == name {
				found = value
			}
		}
		if object = found; found == nil {
			return nil
		}
	}
	return object
}
