package format

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// The limits of values in flattened fields. Elasticsearch and OpenSearch index a value
// together with its names as one term, of at most 32,766 bytes, and refuse documents with
// longer ones unless the mapping of Elasticsearch ignores them; Elasticsearch refuses
// values that are nested deeper than 20 levels, OpenSearch ends at some thousands; and
// both refuse numbers of more than 1,000 digits.
const (
	maxFlatDepth  = 10
	maxFlatText   = 16_000 // bytes
	maxFlatNumber = 40     // bytes
)

var (
	// flattened is an object, or an array of objects, for a field of the types flattened
	// and flat_object, which refuse anything else. Inside, a value that indexes refuse is
	// a string that contains it, and a string of more than 16,000 bytes is an array of
	// its parts.
	flattened = conversion(func(dst, value []byte) ([]byte, fit) {
		if value[0] == '{' {
			dst, ok := appendFlatObject(dst, value, maxFlatDepth)
			return dst, fits(ok && len(value) > len("{}"))
		}
		if value[0] != '[' {
			return dst, none
		}
		dst = append(dst, '[')
		elements := 0
		for element := range jsonscan.Elements(value) {
			if element[0] != '{' {
				return dst, none
			}
			var ok bool
			if dst, ok = appendFlatObject(transform.AppendComma(dst), element, maxFlatDepth-1); !ok {
				return dst, none
			}
			elements++
		}
		return append(dst, ']'), fits(elements > 0)
	})
	// flatValue is any value inside a flattened object.
	flatValue = conversion(func(dst, value []byte) ([]byte, fit) {
		return appendFlat(dst, value, maxFlatDepth-1), whole
	})
)

func appendFlat(dst, value []byte, depth int) []byte {
	start := len(dst)
	switch value[0] {
	case '"':
		if len(value) <= maxFlatText {
			return appendString(dst, value)
		}
		plain, _ := unquoted(nil, value)
		return appendParts(dst, plain)
	case '{':
		if depth > 0 {
			var ok bool
			if dst, ok = appendFlatObject(dst, value, depth); ok {
				return dst
			}
		}
	case '[':
		if depth > 0 {
			dst = append(dst, '[')
			for element := range jsonscan.Elements(value) {
				dst = appendFlat(transform.AppendComma(dst), element, depth-1)
			}
			return append(dst, ']')
		}
	default:
		if !isNumber(value) || len(value) <= maxFlatNumber && isPlain(value, 0) {
			return append(dst, value...)
		}
	}
	return appendParts(dst[:start], value)
}

// appendParts appends text as a JSON string, or as an array of parts if it is long.
func appendParts(dst, text []byte) []byte {
	if len(text) <= maxFlatText {
		return appendText(dst, string(text))
	}
	dst = append(dst, '[')
	for len(text) > 0 {
		n := min(len(text), maxFlatText)
		for n < len(text) && n > maxFlatText-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		dst = appendText(transform.AppendComma(dst), string(text[:n]))
		text = text[n:]
	}
	return append(dst, ']')
}

// appendFlatObject appends an object. It reports false if its names repeat, or if one is
// empty, long or has escapes: NUL separates names from values in an index.
func appendFlatObject(dst, object []byte, depth int) (_ []byte, ok bool) {
	var buffer [maxCompared][]byte
	names := buffer[:0]
	var many map[string]bool // instead of names if there are many
	dst = append(dst, '{')
	for name, value := range jsonscan.Members(object) {
		if len(name) == 0 || len(name) > maxName || bytes.IndexByte(name, '\\') >= 0 || many[string(name)] {
			return dst, false
		}
		for _, other := range names {
			if bytes.Equal(other, name) {
				return dst, false
			}
		}
		switch {
		case many != nil:
			many[string(name)] = true
		case len(names) < maxCompared:
			names = append(names, name)
		default:
			many = map[string]bool{string(name): true}
			for _, other := range names {
				many[string(other)] = true
			}
			names = nil
		}
		dst = append(append(append(transform.AppendComma(dst), '"'), name...), `":`...)
		dst = appendFlat(dst, value, depth-1)
	}
	return append(dst, '}'), true
}

// float32Number is a number that a field of the type float can hold: others refuse the
// document.
var float32Number = conversion(func(dst, value []byte) ([]byte, fit) {
	digits := jsonscan.Number(value)
	if len(digits) > maxFlatNumber {
		return dst, none
	}
	n, err := strconv.ParseFloat(string(digits), 32)
	return append(dst, digits...), fits(err == nil && !math.IsInf(n, 0))
})

// allOf converts the values of an array and of the arrays in it, each once. It does not tell
// whose they are, so that they are in the field only in part.
func allOf(c conversion) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		start := len(dst)
		dst, f := appendEach(append(dst, '['), value, c, start+1, maxFlatDepth)
		if len(dst) == start+1 {
			return dst, none
		}
		return append(dst, ']'), min(f, part)
	}
}

// derived is a conversion of a text, in lower case, to another one; "" if there is none.
func derived(convert func(text string) string) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		text, ok := unquoted(nil, value)
		if !ok || len(text) > maxSelected {
			return dst, none
		}
		to := convert(string(lower(text)))
		return appendText(dst, to), min(fits(to != ""), part)
	}
}

// appendNames appends an array of words that need no escapes.
func appendNames(dst []byte, names ...string) []byte {
	dst = append(dst, '[')
	for _, name := range names {
		dst = append(append(append(transform.AppendComma(dst), '"'), name...), '"')
	}
	return append(dst, ']')
}

// elementsOf returns the first elements of an array, nil if they are null or missing.
func elementsOf(array []byte) (elements [4][]byte) {
	n := 0
	for element := range jsonscan.Elements(array) {
		if n == len(elements) {
			break
		}
		if string(element) != "null" {
			elements[n] = element
		}
		n++
	}
	return elements
}
