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
	// inHeader and inValue are the characters that a field of the header, and the value of
	// a key, can contain.
	inHeader, inValue charset
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

// newLineEncoder returns the encoder of a format with the tables that r has read.
func newLineEncoder(l *lineFormat, r *reader) *Encoder {
	l.reserved = map[string]bool{otherKey: true}
	tables, lengths := r.tables, r.lengths
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
			accepted := l.inValue
			if j < len(l.header) {
				accepted = l.inHeader
			}
			r.as = held(r.as, lengths[name], accepted)
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
	return s.text
}

// appendRest appends the leftovers.
func (l *lineFormat) appendRest(dst []byte, first int, p *plan, s *source) []byte {
	if s.names == nil {
		s.names = make(map[string]int)
	}
	clear(s.names)
	var others []byte
	for path, value := range s.leftovers(p) {
		name := ownKey(path)
		if name == "" || l.reserved[name] || s.names[name] > 0 {
			others = append(append(append(others, `,{"`...), path...), `":`...)
			others = append(append(others, value...), '}')
			continue
		}
		s.names[name] = 1
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
	switch {
	case len(content) > 0 && bytes.IndexByte([]byte(`"{[`), content[0]) < 0 && isKept(content, l.inValue):
		return dst
	case isPlainString(value):
		return appendOneLine(dst[:start], value)
	}
	return appendOneLine(dst[:start], appendText(nil, content))
}

// charset reports whether a format accepts a character.
type charset func(r rune) bool

// containsAll reports whether text consists of characters of c.
func (c charset) containsAll(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return !c(r) })
}

// replace replaces each character that is not in c by a space.
func (c charset) replace(text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if c(r) {
			return r
		}
		return ' '
	}, text)
}

// isKept reports whether a value can be this text.
func isKept(text []byte, accepted charset) bool {
	return len(trim(text)) == len(text) && accepted.containsAll(text)
}

// trim removes white space at the ends of text. Line breaks stay: a format has escapes for
// them, or does not accept them.
func trim(text []byte) []byte {
	return bytes.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) && r != '\n' && r != '\r' })
}

// appendOneLine appends JSON with all characters printable: others are white space between
// tokens, or are escaped in strings.
func appendOneLine(dst, value []byte) []byte {
	if charset(isPrintable).containsAll(value) {
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

// held is c with a result that a line can contain: of a string its content, in which
// characters that are not accepted are replaced by spaces, without spaces at the ends, and
// cut after length bytes (0: nowhere). What is changed is in the field only in part.
func held(c conversion, length int, accepted charset) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		start := len(dst)
		dst, f := c(dst, value)
		if f == none || dst[start] != '"' {
			return dst, f
		}
		if quoted := dst[start:]; bytes.IndexByte(quoted, '\\') < 0 {
			dst = append(dst[:start], quoted[1:len(quoted)-1]...)
		} else {
			var buffer [1024]byte
			content, _ := unquoted(buffer[:0], quoted)
			dst = append(dst[:start], content...)
		}
		content := dst[start:]
		if (length == 0 || len(content) <= length) && isKept(content, accepted) {
			return dst, f
		}
		// A character of up to four bytes becomes a space.
		kept := trim(cut(trim(accepted.replace(cut(trim(content), utf8.UTFMax*length))), length))
		if len(kept) == 0 {
			return dst, none
		}
		if !bytes.Equal(kept, content) {
			f = part
		}
		return append(dst[:start], kept...), f
	}
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
