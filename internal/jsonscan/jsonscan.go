// Package jsonscan finds values in JSON (RFC 8259) without decoding them, several times
// faster than a decoder. The bytes of a value are returned as written: strings with
// their quotes and escapes, numbers with all digits.
//
// It accepts exactly the JSON that encoding/json accepts, up to a given
// depth. Like encoding/json it accepts duplicate names and strings that are not UTF-8.
package jsonscan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"math/bits"
)

// maxDepth is the maximum nesting that encoding/json and jsontext accept.
const maxDepth = 10_000

// Members yields the members of a JSON object in order: the name as written between its
// quotes, and the bytes of the value. It ends before the first malformed member, and
// yields nothing for any other value.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		_, _ = Object(object, func(name, rest []byte) (int, error) {
			size, err := Size(rest)
			if err == nil && !yield(name, rest[:size]) {
				err = errEnough
			}
			return size, err
		})
	}
}

// errEnough ends Object or Array when nothing more is to be yielded.
var errEnough = errors.New("enough")

// Nested calls outer for the members of a JSON object like Members, and before that inner for the
// members of each value that is an object, in one pass.
func Nested(object []byte, inner, outer func(name, value []byte)) {
	_, _ = Object(object, func(name, rest []byte) (size int, err error) { // it ends before what is malformed
		if rest[0] == '{' {
			size, err = Object(rest, func(name, rest []byte) (int, error) {
				size, err := sizeOf(rest, maxDepth-1)
				if err == nil {
					inner(name, rest[:size])
				}
				return size, err
			})
		} else {
			size, err = Size(rest)
		}
		if err == nil {
			outer(name, rest[:size])
		}
		return size, err
	})
}

// ErrSyntax is the error for a text that does not begin with the expected JSON.
var ErrSyntax = errors.New("malformed JSON")

// Size returns the size of the JSON value at the beginning of text. The error is ErrSyntax.
func Size(text []byte) (int, error) { return sizeOf(text, maxDepth) }

func sizeOf(text []byte, depth int) (int, error) {
	if end := valueEnd(text, 0, depth); end >= 0 {
		return end, nil
	}
	return 0, ErrSyntax
}

// Skip is Size for valid JSON: it is faster, since it only looks for the end.
func Skip(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = closingQuote(text, i+1)
			if depth == 0 {
				return min(i+1, len(text))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1 + depth // the bracket of the value around a number or a word is not part of it
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// closingQuote returns the index of the quote that ends a valid string, after its opening quote.
func closingQuote(text []byte, i int) int {
	for {
		quote := bytes.IndexByte(text[i:], '"')
		if quote < 0 {
			return len(text)
		}
		i += quote
		escape := i
		for text[escape-1] == '\\' {
			escape--
		}
		if (i-escape)%2 == 0 {
			return i
		}
		i++
	}
}

// Object calls member for the members of the JSON object at the beginning of text, which may
// follow white space, and returns the index after it. member gets a name as written between its
// quotes and the text from the value on, which is not empty, and returns the value's size. The
// error is that of member or ErrSyntax.
func Object(text []byte, member func(name, rest []byte) (size int, err error)) (end int, err error) {
	i := space(text, 0)
	if i == len(text) || text[i] != '{' {
		return 0, ErrSyntax
	}
	i, more := first(text, i+1, '}')
	for more {
		name, value := memberName(text, i)
		if value < 0 || value == len(text) {
			return 0, ErrSyntax
		}
		size, err := member(name, text[value:])
		if err != nil {
			return 0, err
		}
		if size <= 0 {
			return 0, ErrSyntax
		}
		i, more = next(text, value+size, '}')
	}
	if i < 0 {
		return 0, ErrSyntax
	}
	return i, nil
}

// Array calls element for the elements of the JSON array at the beginning of text, which may
// follow white space, and returns the index after it. The error is that of element or ErrSyntax.
func Array(text []byte, element func(value []byte) error) (end int, err error) {
	i := space(text, 0)
	if i == len(text) || text[i] != '[' {
		return 0, ErrSyntax
	}
	i, more := first(text, i+1, ']')
	for more {
		end := valueEnd(text, i, maxDepth-1)
		if end < 0 {
			return 0, ErrSyntax
		}
		if err := element(text[i:end:end]); err != nil {
			return 0, err
		}
		i, more = next(text, end, ']')
	}
	if i < 0 {
		return 0, ErrSyntax
	}
	return i, nil
}

// Elements yields the elements of a JSON array in order, under the same conditions as
// Members.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		_, _ = Array(array, func(element []byte) error {
			if !yield(element) {
				return errEnough
			}
			return nil
		})
	}
}

// first returns the index of the first member or element of an object or array whose
// opening bracket is before b[i]. If there is none, more is false and the index is that
// after the closing bracket.
func first(b []byte, i int, closing byte) (_ int, more bool) {
	i = space(b, i)
	if i < len(b) && b[i] == closing {
		return i + 1, false
	}
	return i, true
}

// next returns the index of the member or element after the one that ends at b[i]. If
// there is none, more is false and the index is that after the closing bracket, or -1 if
// b is malformed there.
func next(b []byte, i int, closing byte) (_ int, more bool) {
	i = space(b, i)
	switch {
	case i == len(b):
		return -1, false
	case b[i] == ',':
		return space(b, i+1), true
	case b[i] == closing:
		return i + 1, false
	}
	return -1, false
}

// memberName reads the name of the member at b[i], and returns the index of its value, or -1 if it
// is malformed.
func memberName(b []byte, i int) (name []byte, value int) {
	if i >= len(b) || b[i] != '"' {
		return nil, -1
	}
	end := stringEnd(b, i+1)
	if end < 0 {
		return nil, -1
	}
	colon := space(b, end)
	if colon == len(b) || b[colon] != ':' {
		return nil, -1
	}
	return b[i+1 : end-1], space(b, colon+1)
}

// space returns the index of the first byte from b[i] on that is not white space.
func space(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c <= ' ' && (c == ' ' || c == '\n' || c == '\t' || c == '\r') }

// valueEnd returns the index after the value at b[i], or -1 if it is malformed, or its
// objects and arrays are nested deeper than depth.
func valueEnd(b []byte, i, depth int) int {
	if i < 0 || i >= len(b) {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return stringEnd(b, i+1)
	case c == '-' || isDigit(c):
		return numberEnd(b, i)
	case c == '{' && depth > 0:
		return itemsEnd(b, i+1, depth-1, '}')
	case c == '[' && depth > 0:
		return itemsEnd(b, i+1, depth-1, ']')
	case c == 'n':
		return wordEnd(b, i, "null")
	case c == 't':
		return wordEnd(b, i, "true")
	case c == 'f':
		return wordEnd(b, i, "false")
	}
	return -1
}

// wordEnd is valueEnd for a literal name.
func wordEnd(b []byte, i int, word string) int {
	if end := i + len(word); end <= len(b) && string(b[i:end]) == word {
		return end
	}
	return -1
}

// itemsEnd is valueEnd for an object or an array, after its opening bracket.
func itemsEnd(b []byte, i, depth int, closing byte) int {
	i, more := first(b, i, closing)
	for more {
		if closing == '}' {
			_, i = memberName(b, i) // -1 has no value
		}
		if i = valueEnd(b, i, depth); i < 0 {
			return -1
		}
		i, more = next(b, i, closing)
	}
	return i
}

// stringEnd is valueEnd for a string, after its opening quote.
func stringEnd(b []byte, i int) int {
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
			if i = escapeEnd(b, i+1); i < 0 {
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

// escapeEnd returns the index after the escape sequence whose backslash is before b[i],
// or -1.
func escapeEnd(b []byte, i int) int {
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
			if lower := c | 0x20; !isDigit(c) && (lower < 'a' || lower > 'f') {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

// numberEnd is valueEnd for a number.
func numberEnd(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	first := i
	if i = digitsEnd(b, i); i < 0 || b[first] == '0' && i > first+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = digitsEnd(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digitsEnd(b, i)
	}
	return i
}

// digitsEnd returns the index after one or more digits, or -1.
func digitsEnd(b []byte, i int) int {
	first := i
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	if i == first {
		return -1
	}
	return i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
