package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// table declares the documents of one format for one kind of event. A format's tables
// are tried in order; the first that applies to an event makes its document.
type table struct {
	// name is the kind of document in the format's own terms, such as
	// "HTTP Activity (4002)".
	name string
	// stream is the stream of the events: transform.StreamDetections and so on.
	stream string
	// where restricts the table to some events of the stream.
	where condition
	// rows are the fields of the document. No two rows have the same field.
	rows []row
	// rest is the field for values of the event's data that have no field of their own,
	// or that do not fit it: an object with their names. It is the last of the fields.
	rest string
	// restAs converts these values, whatever they are. If it is unset, they are raw.
	restAs conversion
	// inOrder keeps the fields in the order of the rows, for formats without objects.
	inOrder bool
}

// condition selects events by one value of their data, or an attribute. The zero condition selects all.
type condition struct {
	// source is the path of the value, event.subject or event.action.
	source string
	// is lists values that are selected, without regard to case.
	is []string
	// has lists words that a selected value contains, without regard to case.
	has []string
}

// row declares one field of a document.
type row struct {
	// field is the name of the field: a path of names joined by dots in JSON, a key in
	// CEF and LEEF. If some fields of an object end in ! or ?, the object is only written
	// if one of them is. One that ends in ? is only written if none of the others is.
	field string
	// from are the sources of the value. The first that is present and converts is used.
	//
	//	detection.title                                    a value of the event's data
	//	detection.participants[].hostname                  of all elements of an array, each once
	//	detection.participants[role=offender].hostname     of the first such element
	//	audit.body.user + audit.user                       an array of several sources, null if absent
	//	event.id                                           an attribute of the event; see attributes
	//	=alert                                             the constant text alert
	//	=#2004                                             the constant JSON value 2004
	from []string
	// as converts the value to that of the field.
	as conversion
}

// from returns the sources of a row.
func from(sources ...string) []string { return sources }

// plan is a table, compiled.
type plan struct {
	table
	root      *node    // the paths that rows read
	constants [][]byte // the values of all slots before an event is read: constants, else nil
	computed  []computedSlot
	arrays    []*arrayReader
	slots     map[string]int // by source
	readable  []readable
	fields    []field
	restPath  []string // of the object of leftovers, as field.path
}

// readable is a value of the data that rows read.
type readable struct {
	path   string // as documents show it
	slot   int
	within int // slot of the object around it that rows read, too; -1 if there is none
}

// node is a part of a path into the event's data.
type node struct {
	slot     int    // of the value; -1 if no row reads it
	path     string // precedes the names of children: that of the node, with a dot
	children map[string]*node
}

type computedSlot struct {
	slot  int
	value func(dst []byte, s *source) []byte
}

// arrayReader reads values of the elements of one array.
type arrayReader struct {
	array  int            // slot of the array
	names  map[string]int // the members that are read, by their index
	wanted []elementValue
}

type elementValue struct {
	slot, member int
	filter       int // index of the member that must be equal to value; -1: all elements
	value        string
}

// field is a row, compiled.
type field struct {
	name    string
	path    []string // of the objects around the value, each as `"name":`
	last    string   // the value's own name, likewise
	sources [][]int  // alternatives, each of one slot or of several together
	as      conversion

	behind uint64 // the gates that must be open for the field to be written; see gates
	opens  uint64 // the gate that the field opens
	spare  bool   // the field is only written if its gate is not open
}

// gates are the objects that are only written if one of some fields is, as bits by their
// path.
type gates map[string]uint64

// compile prepares a table. It panics if the table is wrong: tables are part of the program.
func compile(t table) *plan {
	if t.restAs == nil {
		t.restAs = raw
	}
	p := &plan{table: t, root: &node{slot: -1, children: make(map[string]*node)}, slots: make(map[string]int)}
	for _, object := range []string{"detection", "audit", "record"} {
		// The members of the object that an event is about are read one by one.
		p.root.children[object] = &node{slot: -1, path: object + ".", children: make(map[string]*node)}
	}
	if t.rest != "" {
		p.restPath = quotedNames(t.rest)
	}
	rows := sorted(t)
	g := make(gates)
	for i, r := range rows {
		name := plainName(r.field)
		if i > 0 && plainName(rows[i-1].field) == name {
			panic(fmt.Sprintf("format: table %q has field %q twice", t.name, name))
		}
		if r.as == nil || len(r.from) == 0 {
			panic(fmt.Sprintf("format: table %q: field %q has no source or no conversion", t.name, name))
		}
		names := quotedNames(name)
		f := field{name: name, as: r.as, path: names[:len(names)-1], last: names[len(names)-1]}
		g.add(&f, r.field)
		for _, alternative := range r.from {
			var together []int
			for _, path := range strings.Split(alternative, " + ") {
				together = append(together, p.slot(path))
			}
			f.sources = append(f.sources, together)
		}
		p.fields = append(p.fields, f)
	}
	p.nest(p.root, -1)
	return p
}

// nest sets readable.within of the values in an object.
func (p *plan) nest(n *node, within int) {
	for _, child := range n.children {
		inner := within
		if child.slot >= 0 {
			i := slices.IndexFunc(p.readable, func(r readable) bool { return r.slot == child.slot })
			p.readable[i].within = within
			inner = child.slot
		}
		p.nest(child, inner)
	}
}

// plainName returns the name of a row's field without its mark.
func plainName(field string) string { return strings.TrimRight(field, "!?") }

// sorted returns the rows of a table in the order in which they are written: fields of the
// same object are neighbors, those that open its gate are the first of them, and those
// around the rest are the last of all.
func sorted(t table) []row {
	outermost, _, _ := strings.Cut(t.rest, ".")
	rank := func(name string) int {
		switch name[len(name)-1] {
		case '!':
			return 0
		case '?':
			return 1
		}
		return 2
	}
	rows := slices.Clone(t.rows)
	if t.inOrder {
		return rows
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		x, y := strings.Split(a.field, "."), strings.Split(b.field, ".")
		if last := x[0] == outermost; last != (y[0] == outermost) {
			return map[bool]int{true: 1, false: -1}[last]
		}
		return slices.CompareFunc(x, y, func(x, y string) int {
			return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x, y))
		})
	})
	return rows
}

// add sets which gates a field opens and is behind. Fields are added in the order of
// sorted.
func (g gates) add(f *field, marked string) {
	object := strings.Join(f.path, "")
	for i := range f.path {
		f.behind |= g[strings.Join(f.path[:i+1], "")]
	}
	if marked == f.name {
		return
	}
	if g[object] == 0 {
		g[object] = 1 << len(g)
	}
	f.opens, f.spare = g[object], strings.HasSuffix(marked, "?")
	f.behind &^= f.opens
}

// quotedNames returns the parts of a path, each as `"name":`.
func quotedNames(path string) []string {
	names := strings.Split(path, ".")
	for i, name := range names {
		names[i] = `"` + name + `":`
	}
	return names
}

// slot returns the slot of a source.
func (p *plan) slot(path string) int {
	if slot, found := p.slots[path]; found {
		return slot
	}
	slot := len(p.constants)
	p.slots[path] = slot
	p.constants = append(p.constants, nil)
	before, selection, isElement := strings.Cut(path, "[")
	switch {
	case strings.HasPrefix(path, "=#"):
		p.constants[slot] = []byte(path[2:])
	case strings.HasPrefix(path, "="):
		p.constants[slot] = appendText(nil, path[1:])
	case attributes[path] != nil:
		p.computed = append(p.computed, computedSlot{slot, attributes[path]})
	case strings.HasPrefix(path, "event."):
		panic(fmt.Sprintf("format: table %q: unknown source %q", p.name, path))
	case isElement:
		p.element(slot, before, selection)
	default:
		n := p.root
		for _, name := range strings.Split(path, ".") {
			if n.children == nil {
				n.children = make(map[string]*node)
			}
			if n.children[name] == nil {
				n.children[name] = &node{slot: -1, path: n.path + name + "."}
			}
			n = n.children[name]
		}
		n.slot = slot
		p.readable = append(p.readable, readable{shortened(path), slot, -1})
	}
	return slot
}

// element compiles a source of the form array[filter].member; selection is what follows
// the opening bracket.
func (p *plan) element(slot int, array, selection string) {
	filter, name, valid := strings.Cut(selection, "].")
	if !valid {
		panic(fmt.Sprintf("format: table %q: source %s[%s has no member", p.name, array, selection))
	}
	at := p.slot(array)
	i := slices.IndexFunc(p.arrays, func(r *arrayReader) bool { return r.array == at })
	if i < 0 {
		i = len(p.arrays)
		p.arrays = append(p.arrays, &arrayReader{array: at, names: make(map[string]int)})
	}
	r := p.arrays[i]
	w := elementValue{slot: slot, member: r.member(name), filter: -1}
	if key, value, found := strings.Cut(filter, "="); found {
		w.filter, w.value = r.member(key), `"`+value+`"`
	}
	r.wanted = append(r.wanted, w)
}

// member returns the index of a member that is read.
func (r *arrayReader) member(name string) int {
	i, found := r.names[name]
	if !found {
		i = len(r.names)
		r.names[name] = i
	}
	return i
}
