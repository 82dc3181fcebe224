package appliance

import (
	"bytes"
	"strconv"
)

// WithoutLinkTimes returns a copy of an object's JSON with zeros for the from and until of
// every link, which ChangingLinks changes. Comparisons use it for both sides.
func WithoutLinkTimes(object []byte) []byte {
	acknowledged := bytes.Clone(object)
	eachLinkTime(acknowledged, func(digits []byte, _ bool) {
		for i := range digits {
			digits[i] = '0'
		}
	})
	return acknowledged
}

// withLinkTimes returns a copy of an object's JSON in which the links' time range ends at
// the given second.
func withLinkTimes(object []byte, until int64) []byte {
	const window = 1800
	changed := bytes.Clone(object)
	_, rest, found := bytes.Cut(changed, []byte(`"description":"`))
	if !found {
		return changed
	}
	eachLinkTime(rest[:endOfString(rest)], func(digits []byte, isUntil bool) {
		at := until
		if !isUntil {
			at -= window
		}
		if written := strconv.FormatInt(at, 10); len(written) == len(digits) {
			copy(digits, written)
		}
	})
	return changed
}

// endOfString returns the index of the quote that ends a JSON string.
func endOfString(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(b)
}

// eachLinkTime calls visit with the digits of each from= and until= in b.
func eachLinkTime(b []byte, visit func(digits []byte, isUntil bool)) {
	for len(b) > 0 {
		equals := bytes.IndexByte(b, '=')
		if equals < 0 {
			return
		}
		name, rest := b[:equals], b[equals+1:]
		n := 0
		for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
			n++
		}
		isUntil := bytes.HasSuffix(name, []byte("until"))
		if isUntil || bytes.HasSuffix(name, []byte("from")) {
			visit(rest[:n], isUntil)
		}
		b = rest[n:]
	}
}
