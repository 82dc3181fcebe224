package format

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lineFormat is a format whose documents are lines of text: a header of fields separated
// by pipes, then keys with their values.
//
// The first rows of its tables are the fields of the header, in order; each has a source
// that is always present. The other rows are keys. The field "key:label" is a key without
// a meaning of its own, which is followed by a second key that names its content.
//
// No value begins or ends with a space, since readers may drop it.
type lineFormat struct {
	start     string   // precedes the header
	header    []string // the fields of the header
	end       string   // follows the header
	separator byte     // precedes a key, except the first
	// lengths are the maximum lengths of the header's fields and of keys, in bytes.
	lengths map[string]int
	// inHeader and inValue report whether a field of the header, or the value of a key,
	// can contain a character.
	inHeader, inValue func(r rune) bool
	// appendHeader and appendValue append text that consists of such characters.
	appendHeader, appendValue func(dst, text []byte) []byte

	reserved map[string]bool // keys with ownPrefix that rows have
}

// ownPrefix begins the names of keys that the format does not define. Values that have no
// key of their own, or do not fit it, are under such keys with the names that they have
// in the data.
const ownPrefix = "ndrbridge"

// otherKey is the key of leftovers whose name cannot be a key: an array of objects with
// one member each.
const otherKey = ownPrefix + "Other"

// newLineEncoder returns the encoder of a format with these tables.
func newLineEncoder(l *lineFormat, tables []table) *Encoder {
	l.reserved = map[string]bool{otherKey: true}
	for i := range tables {
		t := &tables[i]
		t.inOrder, t.rest = true, ownPrefix+"…"
		for j, name := range l.header {
			if t.rows[j].field != name {
				panic(fmt.Sprintf("format: table %q: field %d is not %s", t.name, j, name))
			}
		}
		for j := range t.rows {
			r := &t.rows[j]
			name, _, _ := strings.Cut(r.field, ":")
			if slices.ContainsFunc(t.rows[:j], func(before row) bool { return before.field == r.field }) {
				panic(fmt.Sprintf("format: table %q has key %q twice", t.name, name))
			}
			accept := l.inValue
			if j < len(l.header) {
				accept = l.inHeader
			}
			r.as = held(r.as, l.lengths[name], accept)
			l.reserved[name] = true
		}
	}
	return newEncoder("text/plain; charset=utf-8", tables, l.append)
}

// append appends the line of the event that s has read.
func (l *lineFormat) append(p *plan, dst []byte, s *source) []byte {
	dst = append(dst, l.start...)
	for i := range l.header {
		dst = append(l.appendHeader(dst, s.fieldText(&p.fields[i])), '|')
	}
	dst = append(dst, l.end...)
	first := len(dst)
	for i := range p.fields[len(l.header):] {
		f := &p.fields[len(l.header)+i]
		content := s.fieldText(f)
		if len(content) == 0 {
			continue
		}
		name, label, labelled := strings.Cut(f.name, ":")
		dst = l.appendKey(dst, first, name, content)
		if labelled {
			dst = append(append(append(dst, l.separator), name...), "Label="...)
			dst = append(dst, label...)
		}
	}
	return l.appendRest(dst, first, p, s)
}

// appendKey appends a key. first is the position of the first one.
func (l *lineFormat) appendKey(dst []byte, first int, name string, value []byte) []byte {
	if len(dst) > first {
		dst = append(dst, l.separator)
	}
	return l.appendValue(append(append(dst, name...), '='), value)
}

// fieldText returns the text of a field, or nothing if the field has no value. It is valid
// until the next call.
func (s *source) fieldText(f *field) []byte {
	var ok bool
	if s.text, ok = f.append(s.text[:0], s); !ok {
		return nil
	}
	value := len(s.text)
	if s.text[0] == '"' && bytes.IndexByte(s.text, '\\') < 0 {
		return s.text[1 : value-1]
	}
	s.text, _ = unquoted(s.text, s.text)
	return s.text[value:]
}

// appendRest appends the leftovers.
func (l *lineFormat) appendRest(dst []byte, first int, p *plan, s *source) []byte {
	if s.names == nil {
		s.names = make(map[string]bool)
	}
	clear(s.names)
	var others []byte
	for path, value := range s.leftovers(p) {
		name := s.ownKey(path)
		if name == "" || l.reserved[name] || s.names[name] {
			others = append(append(append(others, `,{"`...), path...), `":`...)
			others = append(append(others, value...), '}')
			continue
		}
		s.names[name] = true
		s.text = l.appendLeftover(s.text[:0], value)
		dst = l.appendKey(dst, first, name, s.text)
	}
	if len(others) > 0 {
		others[0] = '['
		s.text = appendOneLine(s.text[:0], append(others, ']'))
		dst = l.appendKey(dst, first, otherKey, s.text)
	}
	return dst
}

// appendLeftover appends the text of a JSON value. A string is its content, unless a
// value cannot contain that, or it could be taken for other JSON: then it is JSON, like
// objects and arrays.
func (l *lineFormat) appendLeftover(dst, value []byte) []byte {
	if value[0] != '"' {
		return appendOneLine(dst, value)
	}
	start := len(dst)
	dst, _ = unquoted(dst, value)
	content := dst[start:]
	if len(content) > 0 && bytes.IndexByte([]byte(`"{[`), content[0]) < 0 && isKept(content, l.inValue) {
		return dst
	}
	return appendOneLine(dst[:start], appendText(nil, string(content)))
}

// isKept reports whether a value can be this text.
func isKept(text []byte, accept func(rune) bool) bool {
	if len(bytes.TrimSpace(text)) < len(text) {
		return false
	}
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		if !accept(r) || r == utf8.RuneError && size == 1 {
			return false
		}
		i += size
	}
	return true
}

// appendOneLine appends JSON with all characters printable: others are white space between
// tokens, or are escaped in strings.
func appendOneLine(dst, value []byte) []byte {
	if !slices.ContainsFunc(value, func(c byte) bool { return c < ' ' || c > '~' }) {
		return append(dst, value...)
	}
	for _, r := range string(value) {
		switch {
		case r < ' ':
			dst = append(dst, ' ')
		case !isPrintable(r):
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// isPrintable reports whether r is neither a control character nor one that ends a line.
func isPrintable(r rune) bool {
	return ' ' <= r && r <= '~' || r > '~' && !unicode.IsControl(r) && r != '\u2028' && r != '\u2029'
}

// ownKey is ownKey for paths that are often the same.
func (s *source) ownKey(path string) string {
	key, found := s.keys[path]
	if !found {
		key = ownKey(path)
		if s.keys == nil || len(s.keys) > maxKeys {
			s.keys = make(map[string]string)
		}
		s.keys[path] = key
	}
	return key
}

// maxKeys is how many keys are kept for the next event.
const maxKeys = 1000

// ownKey returns the key of a leftover: ownPrefix and its path in camel case. It returns
// nothing if the path has characters other than ASCII letters, digits and separators, or
// is too long.
func ownKey(path string) string {
	path = strings.TrimPrefix(path, "_source.")
	if path == "" || len(path) > maxPath {
		return ""
	}
	var buffer [len(ownPrefix) + maxPath]byte
	key, upper := append(buffer[:0], ownPrefix...), true
	for _, c := range []byte(path) {
		switch isLower := 'a' <= c && c <= 'z'; {
		case c == '_' || c == '.' || c == '-' || c == ' ':
			upper = true
			continue
		case isLower && upper:
			c -= 'a' - 'A'
		case !isLower && !('A' <= c && c <= 'Z') && !('0' <= c && c <= '9'):
			return ""
		}
		key, upper = append(key, c), false
	}
	return string(key)
}

// maxPath is the longest path of a leftover that becomes a key.
const maxPath = 100

// held is c for texts that a field can contain: it replaces characters that are not
// accepted by spaces, removes spaces at the ends, and cuts the text after length bytes (0:
// nowhere). What is changed is in the field only in part.
func held(c conversion, length int, accept func(rune) bool) conversion {
	name := c.name
	if length > 0 {
		name = fmt.Sprintf("%s, at most %d bytes", c.name, length)
	}
	return conversion{name, func(dst, value []byte) ([]byte, fit) {
		start := len(dst)
		dst, f := c.append(dst, value)
		if f == none || dst[start] != '"' {
			return dst, f
		}
		if content := dst[start+1 : len(dst)-1]; bytes.IndexByte(content, '\\') < 0 &&
			(length == 0 || len(content) <= length) && isKept(content, accept) {
			return dst, f
		}
		var buffer [1024]byte
		content, _ := unquoted(buffer[:0], dst[start:])
		if (length == 0 || len(content) <= length) && isKept(content, accept) {
			return dst, f
		}
		kept := bytes.TrimSpace(cut(bytes.TrimSpace(bytes.Map(func(r rune) rune {
			if !accept(r) {
				return ' '
			}
			return r
		}, content)), length))
		if len(kept) == 0 {
			return dst, none
		}
		if !bytes.Equal(kept, content) {
			f = part
		}
		return appendText(dst[:start], string(kept)), f
	}}
}

// cut returns the whole characters in the first length bytes of text; all if length is 0.
func cut(text []byte, length int) []byte {
	if length == 0 || len(text) <= length {
		return text
	}
	for length > 0 && !utf8.RuneStart(text[length]) {
		length--
	}
	return text[:length]
}
