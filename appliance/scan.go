package appliance

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// The scanner reads JSON (RFC 8259) at the speed of memory, and knows nothing but
// whether it is valid: an index of -1 means that it is not, or too unusual to be
// read quickly. The decoder has the word then; what the scanner accepts, the
// decoder would. Bytes that are not UTF-8 are not its concern.

// maxScanned is how deep the scanner follows arrays and objects.
const maxScanned = 64

// field is where a member of an object lies, counted from the object's brace: its
// name without the quotes, and its value.
type field struct{ name, nameEnd, value, end uint32 }

// Fields yields the members of the object in their order: the name as it is
// written between its quotes, and the bytes of the value. It is nil where they
// were not noted when the answer was read: that is done in arrays of objects,
// but not where something is unusual or was repaired, or the members are very many.
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

// Limits on the members that are noted, so that an answer made of names costs no more
// than its bytes: of one object, and of a page.
const (
	maxMembers = 1 << 8
	maxFields  = 1 << 18
)

// scanArray appends the objects of an array of objects with nothing behind it, and
// reports whether the body is one. The error is that of full.
func (p *Page) scanArray(body []byte) (bool, error) {
	if p.fields == nil {
		p.fields = make([]field, 0, 64) // an object without any has noted them, too
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
		noted := fieldList{fields: p.fields, most: min(len(p.fields)+maxMembers, maxFields)}
		end := scanMembers(body, i+1, 1, &noted)
		if end < 0 {
			return false, nil
		}
		o := Object{Raw: body[i:end:end]}
		if !noted.over {
			o.fields = noted.fields[len(p.fields):len(noted.fields):len(noted.fields)]
			p.fields = noted.fields
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

// fieldList is where the members of an object are noted, up to most fields.
type fieldList struct {
	fields []field
	most   int
	over   bool // it has more members
}

func (l *fieldList) add(f field) {
	if l.over = l.over || len(l.fields) >= l.most; !l.over {
		l.fields = append(l.fields, f)
	}
}

func scanSpace(b []byte, i int) int {
	for i < len(b) && space(b[i]) {
		i++
	}
	return i
}

// scanValue returns the index behind the value that begins at b[i], or -1.
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

// scanMembers is scanValue for an object, behind its brace. Where fields is not
// nil, its members are noted there.
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

// scanElements is scanValue for an array, behind its bracket.
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

// scanString is scanValue for a string, behind its opening quote.
func scanString(b []byte, i int) int {
	for i < len(b) {
		// Eight bytes at a time, up to what is not a character as it stands.
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

// special marks, in the highest bit of each, the bytes of word that are a quote,
// a backslash or a control character. The lowest mark is right; those above it
// may not be.
func special(word uint64) uint64 {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	quote, backslash := word^ones*'"', word^ones*'\\'
	return ((quote-ones)&^quote | (backslash-ones)&^backslash | (word-ones*' ')&^word) & highest
}

// scanEscape returns the index behind the escape, whose backslash was read.
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

// scanDigits returns the index behind one digit or more.
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
