package appliance

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// The scanner validates JSON (RFC 8259) quickly. It returns an index of -1 if the JSON is
// invalid or too unusual; the decoder then decides. The decoder accepts everything that
// the scanner accepts. The scanner does not validate UTF-8.

// maxScanned is the maximum nesting that the scanner supports.
const maxScanned = 64

// field holds the offsets of an object's member from the object's brace: its name
// without the quotes, and its value.
type field struct{ name, nameEnd, value, end uint32 }

// Fields yields the members of the object in order: the name as written between its
// quotes, and the bytes of the value. It returns nil if the members were not indexed
// when the answer was read: only objects in arrays are, unless they are unusual, were
// repaired, or have very many members.
func (o Object) Fields() iter.Seq2[[]byte, []byte] {
	if o.fields == nil {
		return nil
	}
	return func(yield func(name, value []byte) bool) {
		for _, f := range o.fields {
			if !yield(o.Raw[f.name:f.nameEnd], o.Raw[f.value:f.end]) {
				return
			}
		}
	}
}

// The maximum number of members that are indexed, of one object and of a page, so that an
// answer that consists of names takes little more memory than its bytes.
const (
	maxMembers = 1 << 8
	maxFields  = 1 << 18
)

// scanArray appends the objects of an array of objects, and reports whether the body is
// one. The error is that of full.
func (p *Page) scanArray(body []byte) (bool, error) {
	if p.fields == nil {
		p.fields = make([]field, 0, 64) // not nil, even for objects without members
	}
	i := scanSpace(body, 0)
	if i == len(body) || body[i] != '[' {
		return false, nil
	}
	i = scanSpace(body, i+1)
	if i < len(body) && body[i] == ']' {
		return scanSpace(body, i+1) == len(body), nil
	}
	for i < len(body) && body[i] == '{' {
		if err := p.full(); err != nil {
			return false, err
		}
		indexed := fieldList{fields: p.fields, limit: min(len(p.fields)+maxMembers, maxFields)}
		end := scanMembers(body, i+1, 1, &indexed)
		if end < 0 {
			return false, nil
		}
		o := Object{Raw: body[i:end:end]}
		if !indexed.over {
			o.fields = indexed.fields[len(p.fields):len(indexed.fields):len(indexed.fields)]
			p.fields = indexed.fields
		}
		p.Objects = append(p.Objects, o)
		i = scanSpace(body, end)
		switch {
		case i == len(body):
			return false, nil
		case body[i] == ']':
			return scanSpace(body, i+1) == len(body), nil
		case body[i] != ',':
			return false, nil
		}
		i = scanSpace(body, i+1)
	}
	return false, nil
}

// fieldList collects the members of an object, up to limit fields in total.
type fieldList struct {
	fields []field
	limit  int
	over   bool // the limit was exceeded
}

func (l *fieldList) add(f field) {
	if l.over = l.over || len(l.fields) >= l.limit; !l.over {
		l.fields = append(l.fields, f)
	}
}

func scanSpace(b []byte, i int) int {
	for i < len(b) && space(b[i]) {
		i++
	}
	return i
}

// scanValue returns the index after the value that begins at b[i], or -1.
func scanValue(b []byte, i, depth int) int {
	if i >= len(b) || depth > maxScanned {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return scanString(b, i+1)
	case c == '{':
		return scanMembers(b, i+1, depth, nil)
	case c == '[':
		return scanElements(b, i+1, depth)
	case c == '-' || digit(c):
		return scanNumber(b, i)
	}
	for _, word := range [...]string{"null", "true", "false"} {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word)
		}
	}
	return -1
}

// scanMembers is scanValue for an object, after its brace. It adds the members to
// fields unless that is nil.
func scanMembers(b []byte, i, depth int, fields *fieldList) int {
	brace := i - 1
	i = scanSpace(b, i)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for i < len(b) && b[i] == '"' {
		name := i + 1
		nameEnd := scanString(b, name)
		if nameEnd < 0 {
			return -1
		}
		if i = scanSpace(b, nameEnd); i == len(b) || b[i] != ':' {
			return -1
		}
		value := scanSpace(b, i+1)
		if i = scanValue(b, value, depth+1); i < 0 {
			return -1
		}
		if fields != nil {
			fields.add(field{uint32(name - brace), uint32(nameEnd - 1 - brace), uint32(value - brace), uint32(i - brace)})
		}
		i = scanSpace(b, i)
		switch {
		case i == len(b):
			return -1
		case b[i] == '}':
			return i + 1
		case b[i] != ',':
			return -1
		}
		i = scanSpace(b, i+1)
	}
	return -1
}

// scanElements is scanValue for an array, after its bracket.
func scanElements(b []byte, i, depth int) int {
	i = scanSpace(b, i)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = scanValue(b, i, depth+1); i < 0 {
			return -1
		}
		i = scanSpace(b, i)
		switch {
		case i == len(b):
			return -1
		case b[i] == ']':
			return i + 1
		case b[i] != ',':
			return -1
		}
		i = scanSpace(b, i+1)
	}
}

// scanString is scanValue for a string, after its opening quote.
func scanString(b []byte, i int) int {
	for i < len(b) {
		// Skip eight bytes at a time up to the next special byte.
		if len(b)-i >= 8 {
			marks := special(binary.LittleEndian.Uint64(b[i:]))
			if marks == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(marks) / 8
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = scanEscape(b, i+1); i < 0 {
				return -1
			}
		case c < ' ':
			return -1
		default:
			i++
		}
	}
	return -1
}

// special marks, in the highest bit of each, the bytes of word that are a quote, a
// backslash or a control character. Only the lowest mark is reliable.
func special(word uint64) uint64 {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	quote, backslash := word^ones*'"', word^ones*'\\'
	return ((quote-ones)&^quote | (backslash-ones)&^backslash | (word-ones*' ')&^word) & highest
}

// scanEscape returns the index after the escape sequence whose backslash was read, or
// -1.
func scanEscape(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if len(b)-i < 5 {
			return -1
		}
		for _, c := range b[i+1 : i+5] {
			if lower := c | 0x20; !digit(c) && (lower < 'a' || lower > 'f') {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

// scanNumber is scanValue for a number.
func scanNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	first := i
	if i = scanDigits(b, i); i < 0 || b[first] == '0' && i > first+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = scanDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return scanDigits(b, i)
	}
	return i
}

// scanDigits returns the index after one or more digits, or -1.
func scanDigits(b []byte, i int) int {
	first := i
	for i < len(b) && digit(b[i]) {
		i++
	}
	if i == first {
		return -1
	}
	return i
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
