package format

import (
	"bytes"
	"math"
	"strconv"

	"ndrbridge/internal/jsonscan"
)

// Conversions of the formats that are lines of text.
var (
	// integer32 is an integer that fits 32 bits.
	integer32 = conversion{"32-bit integer", func(dst, value []byte) ([]byte, fit) {
		n, ok := asInteger(value)
		return strconv.AppendInt(dst, n, 10), fits(ok && math.MinInt32 <= n && n <= math.MaxInt32)
	}}
	// count is an integer that is not negative.
	count = conversion{"integer", func(dst, value []byte) ([]byte, fit) {
		n, ok := asInteger(value)
		return strconv.AppendInt(dst, n, 10), fits(ok && n >= 0)
	}}
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
		for i, more := jsonscan.First(value, 1, ']'); more; {
			end := jsonscan.Value(value, i, jsonscan.MaxDepth)
			start := len(dst)
			var of fit
			if dst, of = c.append(dst, value[i:end]); of == none || string(value[i:end]) == "null" {
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
			i, more = jsonscan.Next(value, end, ']')
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
		e := firstElements(value)
		if !bytes.Equal(e[0], e[2]) || string(e[1]) == "null" {
			return dst, none
		}
		return c.append(dst, e[1])
	}}
}

// firstIfSecond converts the first element of an array if the second is a text.
func firstIfSecond(c conversion) conversion {
	return conversion{c.name + ", the first if there is a second", func(dst, value []byte) ([]byte, fit) {
		e := firstElements(value)
		if string(e[0]) == "null" || e[1][0] != '"' || isEmpty(e[1]) {
			return dst, none
		}
		return c.append(dst, e[0])
	}}
}

// firstElements returns the first elements of an array of several sources.
func firstElements(array []byte) (elements [3][]byte) {
	i, more := jsonscan.First(array, 1, ']')
	for n := 0; more && n < len(elements); n++ {
		end := jsonscan.Value(array, i, jsonscan.MaxDepth)
		elements[n] = array[i:end]
		i, more = jsonscan.Next(array, end, ']')
	}
	return elements
}
