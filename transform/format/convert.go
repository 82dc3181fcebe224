package format

import (
	"bytes"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// conversion converts a JSON value to that of a field, which it appends to dst. If the value
// does not fit at all, nothing counts as appended, though dst may have been written to.
type conversion func(dst, value []byte) ([]byte, fit)

// fit is how much of a value is in a field.
type fit int

const (
	none  fit = iota // the value does not fit the field
	part             // the field has a part of it, or something derived from it
	whole            // nothing of it is lost
)

// fits returns whole or none.
func fits(ok bool) fit {
	if ok {
		return whole
	}
	return none
}

var (
	// text is a string. Numbers and booleans become strings as they are written.
	text = conversion(func(dst, value []byte) ([]byte, fit) {
		switch value[0] {
		case '{', '[':
			return dst, none
		case '"':
			return appendString(dst, value), fits(len(value) > len(`""`))
		}
		return append(append(append(dst, '"'), value...), '"'), whole
	})
	// integer is a number without a fraction that fits 64 bits, or a string of digits.
	integer = integerIn(math.MinInt64, math.MaxInt64)
	// float is a number that a double can hold, as it is written, or a string of one.
	float = conversion(func(dst, value []byte) ([]byte, fit) {
		digits := jsonscan.Number(value)
		n, err := strconv.ParseFloat(string(digits), 64)
		return append(dst, digits...), fits(err == nil && !math.IsInf(n, 0))
	})
	boolean = conversion(func(dst, value []byte) ([]byte, fit) {
		return append(dst, value...), fits(value[0] == 't' || value[0] == 'f')
	})
	port      = integerIn(0, 65535)
	address   = appendAddress(func(netip.Addr) bool { return true })
	address4  = appendAddress(netip.Addr.Is4)
	address6  = appendAddress(netip.Addr.Is6)
	millis    = conversion(appendMillis)
	timestamp = conversion(func(dst, value []byte) ([]byte, fit) {
		ms, ok := jsonscan.Millis(value)
		if !ok {
			return dst, none
		}
		return append(transform.AppendTime(append(dst, '"'), time.UnixMilli(ms)), '"'), wholeMillis(value)
	})
	// raw is any JSON that every parser and index accepts: values that some refuse, such as
	// objects with a name twice, are written as a string that contains them.
	raw = conversion(func(dst, value []byte) ([]byte, fit) {
		switch {
		case value[0] == '"':
			return appendString(dst, value), whole
		case isPlain(value, maxPlainDepth):
			return appendLine(dst, value), whole
		}
		return appendText(dst, value), whole
	})
)

// integerIn is an integer within bounds.
func integerIn(least, most int64) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		n, ok := asInteger(value)
		return strconv.AppendInt(dst, n, 10), fits(ok && least <= n && n <= most)
	}
}

// each converts the elements of an array, and drops those that do not fit and those that
// repeat; a value that is no array is an array of itself. An array of which no element
// fits does not fit.
func each(c conversion) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		start := len(dst)
		dst, f := appendEach(append(dst, '['), value, c, start+1, 2)
		if len(dst) == start+1 {
			return dst, none
		}
		return append(dst, ']'), f
	}
}

func appendEach(dst, value []byte, c conversion, first, depth int) (_ []byte, f fit) {
	if value[0] == '[' && depth > 0 {
		f = whole
		for element := range jsonscan.Elements(value) {
			if string(element) == "null" {
				continue
			}
			var of fit
			dst, of = appendEach(dst, element, c, first, depth-1)
			f = min(f, max(of, part))
		}
		return dst, f
	}
	before := len(dst)
	if before > first {
		dst = append(dst, ',')
	}
	start := len(dst)
	dst, f = c(dst, value)
	if f == none || contains(dst[first-1:before], dst[start:]) {
		dst = dst[:before]
	}
	return dst, f
}

// contains reports whether an array, without its closing bracket, contains a value.
func contains(list, value []byte) bool {
	if len(list) > maxCompared*len(`"255.255.255.255",`) {
		return false // too long to search for every element
	}
	for element := range jsonscan.Elements(list) {
		if bytes.Equal(element, value) {
			return true
		}
	}
	return false
}

// member converts one member of an object, or a value that is no object itself.
func memberOf(name string, c conversion) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		if value[0] == '{' {
			if value = lookup(value, name); value == nil || string(value) == "null" {
				return dst, none
			}
		}
		dst, f := c(dst, value)
		return dst, min(f, part)
	}
}

// firstOf converts the first element of an array that fits, or a value that is no array.
func firstOf(c conversion) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		if value[0] != '[' {
			return c(dst, value)
		}
		return appendFirst(dst, value, c)
	}
}

// appendFirst appends the first element of an array that fits.
func appendFirst(dst, array []byte, c conversion) (_ []byte, f fit) {
	start, others := len(dst), false
	for element := range jsonscan.Elements(array) {
		switch {
		case string(element) == "null":
		case f != none:
			return dst, part
		default:
			if dst, f = c(dst[:start], element); f == none {
				others = true
			}
		}
	}
	if others {
		f = min(f, part)
	}
	return dst, f
}

// only is c for the values that accept accepts, given as text.
func only(c conversion, accept func(text []byte) bool) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		var buffer [64]byte
		key, ok := unquoted(buffer[:0], value)
		if !ok || !accept(key) {
			return dst, none
		}
		return c(dst, value)
	}
}

// lower converts ASCII letters in place.
func lower(text []byte) []byte {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c + 'a' - 'A'
		}
	}
	return text
}

// unquoted appends the text of a JSON string, or a number or word as written, to dst. It
// reports false for an object or array. Unpaired surrogates become U+FFFD.
func unquoted(dst, value []byte) (_ []byte, ok bool) {
	switch {
	case value[0] == '{' || value[0] == '[':
		return dst, false
	case value[0] != '"':
		return append(dst, value...), true
	case bytes.IndexByte(value, '\\') < 0:
		return append(dst, value[1:len(value)-1]...), true
	}
	start := len(dst)
	dst, _ = jsontext.AppendUnquote(dst, value) // the error is about unpaired surrogates
	if !utf8.Valid(dst[start:]) {
		dst = append(dst[:start], bytes.ToValidUTF8(dst[start:], []byte("\uFFFD"))...)
	}
	return dst, true
}

// appendText appends text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendText[T string | []byte](dst []byte, text T) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			dst, _ = jsontext.AppendQuote(dst, text) // the error is about what is replaced
			return dst
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}

// appendString appends a JSON string whose surrogates are paired.
func appendString(dst, value []byte) []byte {
	if isPlainString(value) {
		return append(dst, value...)
	}
	plain, _ := unquoted(nil, value)
	return appendText(dst, plain)
}

// appendLine appends JSON without line breaks, which are only white space in JSON.
func appendLine(dst, value []byte) []byte {
	start := len(dst)
	dst = append(dst, value...)
	if bytes.IndexByte(value, '\n') >= 0 || bytes.IndexByte(value, '\r') >= 0 {
		for i, c := range dst[start:] {
			if c == '\n' || c == '\r' {
				dst[start+i] = ' '
			}
		}
	}
	return dst
}

func isNumber(value []byte) bool { return value[0] == '-' || '0' <= value[0] && value[0] <= '9' }

// asInteger returns a number without a fraction, or that of a string of one.
func asInteger(value []byte) (int64, bool) {
	digits := jsonscan.Number(value)
	if len(digits) > 24 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(digits), 64)
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

// wholeMillis returns part for a time whose fraction of a millisecond is not shown: one with
// a point, or with more digits than milliseconds have, even in quotes.
func wholeMillis(value []byte) fit {
	if bytes.IndexByte(value, '.') >= 0 || len(value) > len(`"253402300799999"`) {
		return part
	}
	return whole
}

func appendMillis(dst, value []byte) ([]byte, fit) {
	// Thirteen digits are a time between 2001 and 2286.
	if len(value) == 13 && value[0] != '0' && !slices.ContainsFunc(value, func(c byte) bool { return c < '0' || c > '9' }) {
		return append(dst, value...), whole
	}
	ms, ok := jsonscan.Millis(value)
	if !ok {
		return dst, none
	}
	return strconv.AppendInt(dst, ms, 10), wholeMillis(value)
}

func appendAddress(accept func(netip.Addr) bool) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		// The longest address has 45 characters.
		if value[0] != '"' || len(value) > len(`""`)+45 || bytes.IndexByte(value, '\\') >= 0 {
			return dst, none
		}
		a, err := netip.ParseAddr(string(value[1 : len(value)-1]))
		if err != nil || a.Zone() != "" || !accept(a) {
			return dst, none
		}
		dst = a.AppendTo(append(dst, '"'))
		return append(dst, '"'), whole
	}
}

// maxPlainDepth is the deepest nesting that is written as JSON; indexes refuse a document
// that is nested much deeper.
const maxPlainDepth = 10

// isPlain reports whether every parser and index accepts a JSON value: it is not nested
// deeper than depth, the names of an object are different, not empty and without escapes,
// no string has an escape of a surrogate, and a double can hold every number.
func isPlain(value []byte, depth int) bool {
	switch value[0] {
	case '"':
		return isPlainString(value)
	case '[':
		if depth == 0 {
			return false
		}
		for element := range jsonscan.Elements(value) {
			if !isPlain(element, depth-1) {
				return false
			}
		}
	case '{':
		if depth == 0 {
			return false
		}
		var buffer [32][]byte
		names := buffer[:0]
		for name, element := range jsonscan.Members(value) {
			if len(name) == 0 || bytes.IndexByte(name, '\\') >= 0 || len(names) == maxCompared || !isPlain(element, depth-1) {
				return false
			}
			for _, other := range names {
				if bytes.Equal(other, name) {
					return false
				}
			}
			names = append(names, name)
		}
	case 't', 'f', 'n':
	default:
		if len(value) > 20 || bytes.ContainsAny(value, "eE") {
			n, err := strconv.ParseFloat(string(value), 64)
			return err == nil && !math.IsInf(n, 0)
		}
	}
	return true
}

// isPlainString reports whether a JSON string has no escape of a surrogate.
func isPlainString(value []byte) bool {
	for i := bytes.IndexByte(value, '\\'); i >= 0 && i+2 < len(value); {
		if value[i+1] == 'u' && (value[i+2] == 'd' || value[i+2] == 'D') {
			return false
		}
		next := bytes.IndexByte(value[i+2:], '\\')
		if next < 0 {
			break
		}
		i += 2 + next
	}
	return true
}
