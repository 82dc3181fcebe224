package transform

import (
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
// elements. The error tells which path is none.
func ParseRedaction(paths []string) (Redaction, error) {
	root := make(redacted)
	for _, path := range paths {
		names := strings.Split(path, ".")
		at := root
		for i, name := range names {
			if name == "" || strings.ContainsAny(name, "\"\\") {
				return Redaction{}, fmt.Errorf("%q is no path of a field: write names joined by dots, such as detection.description", path)
			}
			below, known := at[name]
			switch {
			case known && below == nil: // a shorter path takes all of it out
			case i == len(names)-1:
				at[name] = nil
			case !known:
				below = make(redacted)
				at[name] = below
			}
			if below == nil {
				break
			}
			at = below
		}
	}
	return Redaction{root}, nil
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

// appendTo appends a value without what is taken out, and says whether
// anything was.
func (r redacted) appendTo(dst, value []byte) (_ []byte, changed bool) {
	switch value[0] {
	case '{':
		dst = append(dst, '{')
		first := true
		for name, member := range Fields(value) {
			below, listed := r[string(name)]
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
