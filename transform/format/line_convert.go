package format

import (
	"bytes"
	"math"

	"ndrbridge/internal/jsonscan"
)

// Conversions of the formats that are lines of text.
var (
	integer32 = integerIn("32-bit integer", math.MinInt32, math.MaxInt32)
	count     = integerIn("integer", 0, math.MaxInt64)
	// exactText is a text that always is in the field whole: if it has characters that are
	// not printable, or spaces at its ends, it is JSON.
	exactText = conversion{text.name, func(dst, value []byte) ([]byte, fit) {
		content, ok := unquoted(nil, value)
		if !ok || len(content) == 0 {
			return dst, none
		}
		if content[0] == '"' || !isKept(content, printable) {
			content = appendOneLine(nil, appendText(nil, content))
		}
		return appendText(dst, content), whole
	}}
	// instant is a time. A fraction of its millisecond is not in the field.
	instant = conversion{millis.name, func(dst, value []byte) ([]byte, fit) {
		dst, f := appendMillis(dst, value)
		if bytes.ContainsAny(value, ".eE") {
			f = min(f, part)
		}
		return dst, f
	}}
	// failureSaid is the word failure if one of several texts says that something failed.
	failureSaid = conversion{`"failure" if it contains fail, denied, refused or rejected`, func(dst, value []byte) ([]byte, fit) {
		for element := range jsonscan.Elements(value) {
			element = lower(bytes.Clone(element))
			for _, word := range []string{"fail", "denied", "refused", "rejected"} {
				if element[0] == '"' && bytes.Contains(element, []byte(word)) {
					return append(dst, `"failure"`...), part
				}
			}
		}
		return dst, none
	}}
	// outcomeOfStatus is the outcome of a request by the code of its response.
	outcomeOfStatus = conversion{`"success" for 100 to 399, "failure" for 400 to 599`, func(dst, value []byte) ([]byte, fit) {
		switch n, ok := asInteger(value); {
		case !ok || n < 100 || n > 599:
			return dst, none
		case n < 400:
			return append(dst, `"success"`...), part
		}
		return append(dst, `"failure"`...), part
	}}
)

// joined is the texts of an array, separated by commas; a value that is no array is
// itself. c converts an element to a text. If the texts cannot be told apart, or one does
// not fit, they are in the field only in part.
func joined(c conversion) conversion {
	return conversion{"list of " + c.name, func(dst, value []byte) ([]byte, fit) {
		if value[0] != '[' {
			return c.append(dst, value)
		}
		dst = append(dst, '"')
		first, f := len(dst), whole
		for element := range jsonscan.Elements(value) {
			start := len(dst)
			var of fit
			if dst, of = c.append(dst, element); of == none || string(element) == "null" {
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
	}}
}

// second converts the second element of an array if the first and third are equal.
func second(c conversion) conversion {
	return conversion{c.name + ", the second if the first is the third", func(dst, value []byte) ([]byte, fit) {
		e := elementsOf(value)
		if !bytes.Equal(e[0], e[2]) || e[1] == nil {
			return dst, none
		}
		return c.append(dst, e[1])
	}}
}

// firstIfSecond converts the first element of an array if the second is a text.
func firstIfSecond(c conversion) conversion {
	return conversion{c.name + ", the first if there is a second", func(dst, value []byte) ([]byte, fit) {
		e := elementsOf(value)
		if e[0] == nil || e[1] == nil || e[1][0] != '"' || isEmpty(e[1]) {
			return dst, none
		}
		return c.append(dst, e[0])
	}}
}

// devTime is a time of 13 digits, for which a reader needs no devTimeFormat.
var devTime = conversion{"milliseconds since the epoch, 13 digits", func(dst, value []byte) ([]byte, fit) {
	start := len(dst)
	dst, f := instant.append(dst, value)
	if len(dst)-start != len("1700000000000") {
		f = none
	}
	return dst, f
}}

// keyword is a text that can be a protocol's keyword or number at IANA.
var keyword = only(text, func(text []byte) bool {
	for _, c := range text {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return 0 < len(text) && len(text) <= 32
})
