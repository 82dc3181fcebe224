package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Redaction is a set of fields that are taken out of data.
type Redaction struct{ root redacted }

// redacted holds the members of an object that are taken out: those without
// members of their own whole, of the others those below.
type redacted map[string]redacted

// ParseRedaction reads fields as paths into data: names joined by dots, such as
// detection.participants.username. An array on the way stands for each of its
// elements. A path into the detection also takes out what changes holds of that
// field. The error names the first path that is invalid.
func ParseRedaction(paths []string) (Redaction, error) {
	root := make(redacted)
	for _, path := range paths {
		names := strings.Split(path, ".")
		for _, name := range names {
			if name == "" || strings.ContainsAny(name, "\"\\") {
				return Redaction{}, fmt.Errorf("%q is no path of a field: write names joined by dots, such as detection.description", path)
			}
		}
		root.add(names)
		if names[0] != "detection" {
			continue
		}
		switch tracked := names[1:]; len(tracked) {
		case 0, 1:
			root.add(append([]string{"changes"}, tracked...))
		default:
			for _, side := range []string{"from", "to"} {
				root.add(append([]string{"changes", tracked[0], side}, tracked[1:]...))
			}
		}
	}
	return Redaction{root}, nil
}

// add adds the member that names lead to. A shorter path takes all of it out.
func (r redacted) add(names []string) {
	name, rest := names[0], names[1:]
	below, known := r[name]
	switch {
	case known && below == nil:
	case len(rest) == 0:
		r[name] = nil
	default:
		if !known {
			below = make(redacted)
			r[name] = below
		}
		below.add(rest)
	}
}

// member returns what is taken out of a member, given its name as it is written
// between its quotes. A name may be written with escapes.
func (r redacted) member(name []byte) (below redacted, listed bool) {
	if bytes.IndexByte(name, '\\') >= 0 {
		var plain string
		if json.Unmarshal(append(append([]byte{'"'}, name...), '"'), &plain) == nil {
			name = []byte(plain)
		}
	}
	below, listed = r[string(name)]
	return below, listed
}

// Apply returns an event without the fields. One that has none of them is
// returned as it is.
func (r Redaction) Apply(e Event) (Event, error) {
	if len(r.root) == 0 {
		return e, nil
	}
	data, changed := r.root.appendTo(nil, e.Data())
	if !changed {
		return e, nil
	}
	return encode(e.Attributes, data)
}

// appendTo appends a value without what is taken out, and reports whether
// anything was.
func (r redacted) appendTo(dst, value []byte) (_ []byte, changed bool) {
	switch value[0] {
	case '{':
		dst = append(dst, '{')
		first := true
		for name, member := range Fields(value) {
			below, listed := r.member(name)
			if listed && below == nil {
				changed = true
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(append(append(dst, '"'), name...), '"', ':')
			if listed {
				var within bool
				dst, within = below.appendTo(dst, member)
				changed = changed || within
			} else {
				dst = append(dst, member...)
			}
		}
		return append(dst, '}'), changed
	case '[':
		dst = append(dst, '[')
		first := true
		for element := range Elements(value) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			var within bool
			dst, within = r.appendTo(dst, element)
			changed = changed || within
		}
		return append(dst, ']'), changed
	}
	return append(dst, value...), false
}
