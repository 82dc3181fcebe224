// Package retryafter reads how long a server wants to be left alone.
package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Max bounds what a server can make anybody wait: one whose clock is wrong, or
// that gives the time of day as a number of seconds, must not silence them for
// years.
const Max = 24 * time.Hour

// Parse returns the wait that the Retry-After field asks for (RFC 9110, section
// 10.2.3): a number of seconds, or a date, which counts from the answer's own
// Date field, never from the local clock. It lies between 0, for a date that has
// passed, and Max. ok is false where the field is absent, is neither of the two,
// or is a date without a Date to count from.
func Parse(h http.Header) (wait time.Duration, ok bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(Max/time.Second) { // more digits than an int64 has, or too long
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
