package appliance

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a server can make us wait: a stream must not stop
// for years because a clock is wrong.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the Retry-After field in both its forms (RFC 9110, section
// 10.2.3). A date counts from the answer's own Date field, never from the local
// clock; without that field it says nothing. What is in the past, missing or
// unreadable is 0.
func retryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), maxRetryAfter)
}
