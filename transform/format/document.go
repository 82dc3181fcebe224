package format

import (
	"cmp"
	"strconv"

	"ndrbridge/transform"
)

// appendDocument appends the JSON object of the event that s has read.
func (p *plan) appendDocument(dst []byte, s *source) []byte {
	dst = append(dst, '{')
	var open []string // the objects around the next field
	var gates uint64  // that are open
	for i := range p.fields {
		f := &p.fields[i]
		if gates&f.behind != f.behind || f.spare && gates&f.opens != 0 {
			continue
		}
		start := len(dst)
		dst = openObjects(dst, open, f.path)
		dst = append(transform.AppendComma(dst), f.last...)
		var ok bool
		if dst, ok = f.append(dst, s); !ok {
			dst = dst[:start]
			continue
		}
		open = f.path
		gates |= f.opens
	}
	if p.rest != "" {
		dst, open = p.appendRest(dst, s, open)
	}
	for range open {
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendRest appends the object of the leftovers. It returns the objects that are open.
func (p *plan) appendRest(dst []byte, s *source, open []string) ([]byte, []string) {
	start := len(dst)
	dst = openObjects(dst, open, p.restPath)
	empty := len(dst)
	if s.names == nil {
		s.names = make(map[string]int)
	}
	clear(s.names)
	for path, value := range s.leftovers(p) {
		if len(path) > maxName {
			path, value = "_", appendObject(nil, path, value)
		}
		dst = append(appendText(transform.AppendComma(dst), s.unusedName(path)), ':')
		dst, _ = p.restAs(dst, value)
	}
	if len(dst) == empty {
		return dst[:start], open
	}
	return dst, p.restPath
}

// unusedName returns path, or path with a number if a leftover has that name already.
func (s *source) unusedName(path string) string {
	first := cmp.Or(path, "_")
	name := first
	for s.names[name] > 0 {
		s.names[first]++
		name = path + "_" + strconv.Itoa(s.names[first])
	}
	s.names[name] = 1
	return name
}

// maxName is the longest name of a value in the rest, in bytes: indexes refuse long ones.
const maxName = 512

// appendObject appends a JSON string that contains an object of one member.
func appendObject(dst []byte, name string, value []byte) []byte {
	object := append(appendText([]byte{'{'}, name), ':')
	return appendText(dst, string(append(append(object, value...), '}')))
}

// openObjects ends the objects that are open, except those around the next field, and
// begins the others around it.
func openObjects(dst []byte, open, around []string) []byte {
	depth := 0
	for depth < len(open) && depth < len(around) && open[depth] == around[depth] {
		depth++
	}
	for range len(open) - depth {
		dst = append(dst, '}')
	}
	for _, name := range around[depth:] {
		dst = append(transform.AppendComma(dst), name...)
		dst = append(dst, '{')
	}
	return dst
}
