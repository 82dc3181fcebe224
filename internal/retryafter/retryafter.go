// Package retryafter parses the Retry-After header.
package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Max limits the wait that a server can request: one with a wrong clock, or one that
// sends a Unix time as a number of seconds, must not stop requests for years.
const Max = 24 * time.Hour

// Parse returns the wait requested by the Retry-After field (RFC 9110, section 10.2.3):
// a number of seconds, or a date, which is compared with the answer's own Date field,
// never with the local clock. The wait is between 0, for a date in the past, and Max.
// ok is false if the field is absent or invalid, or is a date in an answer without
// Date.
func Parse(h http.Header) (wait time.Duration, ok bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(Max/time.Second) { // out of the range of int64, or too long
			return Max, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0, false
	}
	return min(max(0, at.Sub(now)), Max), true
}
