package format

import (
	"bytes"
	"math"

	"ndrbridge/internal/jsonscan"
)

// Conversions of the formats that are lines of text.
var (
	integer32 = integerIn(math.MinInt32, math.MaxInt32)
	count     = integerIn(0, math.MaxInt64)
	// exactText is a text that always is in the field whole: if it has characters that are
	// not printable, or spaces at its ends, it is JSON.
	exactText = conversion(func(dst, value []byte) ([]byte, fit) {
		content, ok := unquoted(nil, value)
		if !ok || len(content) == 0 {
			return dst, none
		}
		if content[0] == '"' || !isKept(content, isPrintable) {
			content = appendOneLine(nil, appendText(nil, content))
		}
		return appendText(dst, content), whole
	})
	// instant is a time. A fraction of its millisecond is not in the field.
	instant = conversion(func(dst, value []byte) ([]byte, fit) {
		dst, f := appendMillis(dst, value)
		if bytes.ContainsAny(value, ".eE") {
			f = min(f, part)
		}
		return dst, f
	})
)

// joined is the texts of an array, separated by commas; a value that is no array is
// itself. c converts an element to a text. If the texts cannot be told apart, or one does
// not fit, they are in the field only in part.
func joined(c conversion) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		if value[0] != '[' {
			return c(dst, value)
		}
		dst = append(dst, '"')
		first, f := len(dst), whole
		for element := range jsonscan.Elements(value) {
			start := len(dst)
			var of fit
			if dst, of = c(dst, element); of == none || string(element) == "null" {
				dst, of = dst[:start], none
			} else { // the content of the string, after a comma unless it is the first
				content := dst[start+1 : len(dst)-1]
				if bytes.IndexByte(content, ',') >= 0 || bytes.Contains(content, []byte(`\u002`)) { // an escaped comma
					of = part
				}
				if start > first {
					dst[start] = ','
					dst = dst[:len(dst)-1]
				} else {
					dst = dst[:start+copy(dst[start:], content)]
				}
			}
			f = min(f, max(of, part))
		}
		if len(dst) == first {
			return dst, none
		}
		return append(dst, '"'), f
	}
}

// second converts the second element of an array if the first and third are equal.
func second(c conversion) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		e := elementsOf(value)
		if !bytes.Equal(e[0], e[2]) || e[1] == nil {
			return dst, none
		}
		return c(dst, e[1])
	}
}

// firstIfSecond converts the first element of an array if the second is a text.
func firstIfSecond(c conversion) conversion {
	return func(dst, value []byte) ([]byte, fit) {
		e := elementsOf(value)
		if e[0] == nil || e[1] == nil || e[1][0] != '"' || isEmpty(e[1]) {
			return dst, none
		}
		return c(dst, e[0])
	}
}

// devTime is a time of 13 digits, for which a reader needs no devTimeFormat.
var devTime = conversion(func(dst, value []byte) ([]byte, fit) {
	start := len(dst)
	dst, f := instant(dst, value)
	if len(dst)-start != len("1700000000000") {
		f = none
	}
	return dst, f
})

// keyword is a text that can be a protocol's keyword or number at IANA.
var keyword = only(text, func(text []byte) bool {
	for _, c := range text {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return 0 < len(text) && len(text) <= 32
})
