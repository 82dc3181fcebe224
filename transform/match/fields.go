package match

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/cel-go/common/types/ref"
)

// branch is a node in the tree of the fields that an expression reads. The root has no
// name.
type branch struct {
	name  string
	slot  int // noSlot if only fields below are read
	below []branch
}

const noSlot = -1

// add returns the branch of a path, adding it if it is missing. The result is valid
// until the next call.
func (b *branch) add(path []string) *branch {
	at := b
	for _, name := range path {
		next := at.child([]byte(name))
		if next == nil {
			at.below = append(at.below, branch{name: name, slot: noSlot})
			next = &at.below[len(at.below)-1]
		}
		at = next
	}
	return at
}

func (b *branch) child(name []byte) *branch {
	for i := range b.below {
		if string(name) == b.below[i].name {
			return &b.below[i]
		}
	}
	return nil
}

// field is the result of looking for a field in an event.
type field struct {
	state   state
	json    []byte  // points into the event
	decoded ref.Val // nil until decoded
}

// decode returns the value of a field that was found; it is decoded once.
func (f *field) decode() ref.Val {
	if f.decoded == nil {
		f.decoded = decode(f.json)
	}
	return f.decoded
}

type state uint8

const (
	unreached  state = iota // the field's parent is absent
	missing                 // the field's parent is present, but not the field
	insideList              // the field's parent is a list
	found
)

// find fills in the fields below b from the JSON value at the start of data. If a name
// occurs twice the last member counts, as for the event's consumers. Malformed JSON is
// read as far as possible.
func (b *branch) find(data []byte, fields []field) { b.value(data, skipSpace(data, 0), fields) }

// value reads the value at data[i]. It returns the index after it, or -1 if data ends
// inside it.
func (b *branch) value(data []byte, i int, fields []field) int {
	if len(b.below) == 0 || i >= len(data) {
		return skipValue(data, i)
	}
	switch data[i] {
	case '{':
		b.mark(fields, missing)
		return b.object(data, i, fields)
	case '[':
		b.mark(fields, insideList)
	default:
		b.mark(fields, missing)
	}
	return skipValue(data, i)
}

// mark resets all fields below b before its members are read: an earlier member of the
// same name may have set them.
func (b *branch) mark(fields []field, direct state) {
	for i := range b.below {
		c := &b.below[i]
		if c.slot != noSlot {
			fields[c.slot] = field{state: direct}
		}
		deeper := unreached
		if direct == insideList {
			deeper = insideList
		}
		c.mark(fields, deeper)
	}
}

func (b *branch) object(data []byte, i int, fields []field) int {
	for i = skipSpace(data, i+1); i < len(data) && data[i] == '"'; i = skipSpace(data, i+1) {
		end := skipString(data, i)
		if end < 0 {
			return -1
		}
		name := data[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = unquote(data[i:end])
		}
		if i = skipSpace(data, end); i >= len(data) || data[i] != ':' {
			return -1
		}
		i = skipSpace(data, i+1)
		if c := b.child(name); c == nil {
			end = skipValue(data, i)
		} else if end = c.value(data, i, fields); end >= 0 && c.slot != noSlot {
			fields[c.slot] = field{state: found, json: data[i:end]}
		}
		if end < 0 {
			return -1
		}
		if i = skipSpace(data, end); i >= len(data) || data[i] != ',' {
			break
		}
	}
	if i < len(data) && data[i] == '}' {
		return i + 1
	}
	return -1
}

// unquote returns the text of a JSON string. Invalid Unicode is replaced.
func unquote(quoted []byte) []byte {
	text, _ := jsontext.AppendUnquote(nil, quoted) // the error reports what was replaced
	return text
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index after the value at data[i] without parsing it, or -1 if
// there is none or data ends inside it.
func skipValue(data []byte, i int) int {
	if i >= len(data) {
		return -1
	}
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		return skipNested(data, i)
	}
	start := i
	for i < len(data) && data[i] != ',' && data[i] != '}' && data[i] != ']' && data[i] > ' ' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func skipNested(data []byte, i int) int {
	for depth := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			end := skipString(data, i)
			if end < 0 {
				return -1
			}
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// skipString returns the index after the string whose opening quote is data[i], or -1
// if it does not end.
func skipString(data []byte, i int) int {
	// Most strings are short: a loop is cheaper than starting a search.
	const short = 16
	i++
	for end := min(i+short, len(data)); i < end; i++ {
		switch data[i] {
		case '"':
			return i + 1
		case '\\':
			return skipEscaped(data, i)
		}
	}
	return skipEscaped(data, i)
}

// skipEscaped is skipString from a byte within the string that follows no backslash.
func skipEscaped(data []byte, i int) int {
	start := i
	for i < len(data) {
		quote := bytes.IndexByte(data[i:], '"')
		if quote < 0 {
			return -1
		}
		i += quote
		back := i
		for back > start && data[back-1] == '\\' {
			back--
		}
		// An even number of backslashes escape each other.
		if i++; (i-1-back)%2 == 0 {
			return i
		}
	}
	return -1
}
