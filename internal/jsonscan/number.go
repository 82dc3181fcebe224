package jsonscan

import (
	"bytes"
	"fmt"
	"strconv"
)

// Number returns a number as written, without the quotes if it is the whole of a string:
// appliances return some numbers as texts. It returns nil for any other value.
func Number(value []byte) []byte {
	if len(value) > 2 && value[0] == '"' {
		value = value[1 : len(value)-1]
	}
	if len(value) == 0 || value[0] != '-' && !isDigit(value[0]) || numberEnd(value, 0) != len(value) {
		return nil
	}
	return value
}

// Integer returns the 64-bit integer that Number finds.
func Integer(value []byte) (int64, error) {
	n, err := strconv.ParseInt(string(Number(value)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a 64-bit integer", value)
	}
	return n, nil
}

// maxMillis is the first millisecond since the epoch that RFC 3339 cannot represent: that
// of the year 10000.
const maxMillis = 253402300800000

// Millis returns the time that Number finds, in milliseconds since the epoch, without their
// fraction. A number of another magnitude than milliseconds of the last decades is one of
// seconds, microseconds or nanoseconds. ok is false, and ms 0, unless the time is from 1970
// to the year 9999.
func Millis(value []byte) (ms int64, ok bool) {
	const (
		leastSeconds, mostSeconds = 1e8, 1e11 // as milliseconds, times before 1974
		leastMicros, leastNanos   = 1e15, 1e18
	)
	digits := Number(value)
	if digits == nil {
		return 0, false
	}
	n, err := int64(0), strconv.ErrSyntax
	if !bytes.ContainsAny(digits, ".eE") { // an error costs memory, and records have fractions
		n, err = strconv.ParseInt(string(digits), 10, 64)
	}
	switch {
	case err != nil:
		f, err := strconv.ParseFloat(string(digits), 64)
		if leastSeconds <= f && f < mostSeconds {
			f = f*1000 + 0.001 // a double cannot hold every fraction
		}
		if err != nil || !(0 <= f && f < maxMillis) {
			return 0, false
		}
		return int64(f), true
	case leastSeconds <= n && n < mostSeconds:
		n *= 1000
	case leastNanos <= n:
		n /= 1_000_000
	case leastMicros <= n:
		n /= 1000
	}
	if n < 0 || n >= maxMillis {
		return 0, false
	}
	return n, true
}

// SameMillis reports whether two times in milliseconds are the same, of which one may be in
// whole seconds only.
func SameMillis(a, b int64) bool {
	return a == b || (a%1000 == 0 || b%1000 == 0) && a-b < 1000 && b-a < 1000
}
