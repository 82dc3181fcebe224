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
		if content[0] == '"' || !isKept(content, isPrintable) {
			content = appendOneLine(nil, appendText(nil, string(content)))
		}
		return appendText(dst, string(content)), whole
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
// itself. If they cannot be told apart, or one does not fit, it has them only in part.
func joined(c conversion) conversion {
	return conversion{"list of " + c.name, func(dst, value []byte) ([]byte, fit) {
		if value[0] != '[' {
			return c.append(dst, value)
		}
		f := whole
		var list, one []byte
		for element := range jsonscan.Elements(value) {
			var of fit
			if one, of = c.append(one[:0], element); of == none || string(element) == "null" {
				f = part
				continue
			}
			if len(list) > 0 {
				list = append(list, ',')
			}
			start := len(list)
			list, _ = unquoted(list, one)
			if bytes.IndexByte(list[start:], ',') >= 0 {
				f = part
			}
			f = min(f, of)
		}
		if len(list) == 0 {
			return dst, none
		}
		return appendText(dst, string(list)), f
	}}
}

// second converts the second element of an array if the first and third are equal.
func second(c conversion) conversion {
	return conversion{c.name + ", the second if the first is the third", func(dst, value []byte) ([]byte, fit) {
		var elements [3][]byte
		n := 0
		for element := range jsonscan.Elements(value) {
			elements[n] = element
			n++
		}
		if !bytes.Equal(elements[0], elements[2]) || string(elements[1]) == "null" {
			return dst, none
		}
		return c.append(dst, elements[1])
	}}
}

// firstIfSecond converts the first element of an array if the second is a text.
func firstIfSecond(c conversion) conversion {
	return conversion{c.name + ", the first if there is a second", func(dst, value []byte) ([]byte, fit) {
		var first []byte
		for element := range jsonscan.Elements(value) {
			if first == nil {
				first = element
				continue
			}
			if element[0] == '"' && len(element) > len(`""`) && string(first) != "null" {
				return c.append(dst, first)
			}
			break
		}
		return dst, none
	}}
}
