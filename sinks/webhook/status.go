package webhook

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/retryafter"
)

// classOf returns the error class of a status that is not 2xx. Unknown statuses are
// treated like the x00 status of their class (RFC 9110, section 15).
func classOf(status int) failure.Class {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusGone, http.StatusUnsupportedMediaType,
		http.StatusMisdirectedRequest, http.StatusUpgradeRequired, http.StatusNotImplemented,
		http.StatusHTTPVersionNotSupported, http.StatusNetworkAuthenticationRequired:
		return failure.Halted
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return failure.Transient
	case http.StatusTooManyRequests:
		return failure.Throttled
	}
	switch status / 100 {
	case 3:
		return failure.Halted
	case 4:
		return failure.Rejected
	}
	return failure.Transient
}

// scopeOf returns the scope of the error of a status. Any status that does not name the target as
// the cause, such as 500, may be the fault of the request's events.
func scopeOf(status int) failure.Scope {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return failure.ScopeTarget
	}
	return failure.ScopeEvent
}

// advice is what to check when a status halts the sink.
var advice = map[int]string{
	http.StatusUnauthorized:                  "check the credentials",
	http.StatusForbidden:                     "check the credentials, and their permissions",
	http.StatusNotFound:                      "check url",
	http.StatusMethodNotAllowed:              "check method and url",
	http.StatusProxyAuthRequired:             "check the proxy's credentials",
	http.StatusGone:                          "check url: the webhook was removed",
	http.StatusUnsupportedMediaType:          "check mode and gzip, or set headers.Content-Type",
	http.StatusNetworkAuthenticationRequired: "the network requires a login before it forwards requests",
}

// statusText returns the status code and its standard text, not the server's.
func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// location returns the redirect target of an answer, without its query and without
// segments that it has in common with the configured path, which may be a key of any
// length.
func (s *Sink) location(answer *http.Response) string {
	to, err := answer.Location()
	if err != nil {
		return "no location"
	}
	ours := strings.Split(s.request.URL.Path, "/")
	parts := strings.Split(to.Path, "/")
	for i, part := range parts {
		if part != "" && slices.Contains(ours, part) {
			parts[i] = "[redacted]"
		}
	}
	return s.excerpt(to.Scheme + "://" + to.Host + strings.Join(parts, "/"))
}

// words are segments of paths that are no keys.
var words = regexp.MustCompile(`^(_bulk|api|collector|events?|hooks?|ingest|logs?|services|webhooks?|v[0-9])?$`)

// shownPath returns the path of a request for an error. Of the configured path, whose segments may
// be keys of any form and length, it has only well-known words.
func (s *Sink) shownPath(u *url.URL) string {
	ours := strings.Split(s.request.URL.Path, "/")
	parts := strings.Split(u.Path, "/")
	for i, part := range parts {
		if !slices.Contains(ours, part) {
			parts[i] = s.excerpt(part)
		} else if !words.MatchString(part) {
			parts[i] = "[redacted]"
		}
	}
	return strings.Join(parts, "/")
}

// Refusal classifies the answer by its status and Retry-After field, for services that
// document nothing more specific. It returns nil for 2xx, unless the body is an HTML page,
// and a *failure.Error otherwise.
func (a Answer) Refusal() error {
	if a.isPage() {
		return failure.Errorf(failure.Halted, "%s with an HTML page, as a login page or a proxy answers, so that no event is delivered; check url: %s",
			statusText(a.Status), a.QuoteBody())
	}
	if a.Status/100 == 2 {
		return nil
	}
	class, wait := classAndWait(a.Status, a.Header)
	err := a.Error(class)
	err.RetryAfter = wait
	return err
}

// Error returns an error of the given class that quotes the answer.
func (a Answer) Error(class failure.Class) *failure.Error {
	text := statusText(a.Status)
	switch {
	case a.Status == http.StatusNotFound && a.path != "":
		text += " at " + a.path
	case a.Status == http.StatusRequestEntityTooLarge && a.sent > 0:
		text += fmt.Sprintf(", for a body of %d bytes as sent", a.sent)
	}
	if hint := advice[a.Status]; hint != "" && class == failure.Halted {
		text += fmt.Sprintf(" (%s)", hint)
	}
	if a.redirect != "" {
		text += fmt.Sprintf(", redirected to %s; redirects are not followed: set url to the final address", a.redirect)
	}
	if quoted := a.QuoteBody(); quoted != "" {
		text += ": " + quoted
	}
	err := failure.Errorf(class, "%s", text)
	err.Scope, err.Cause = scopeOf(a.Status), failure.CauseOfStatus(a.Status)
	return err
}

// classAndWait returns the error class of a status that is not 2xx, and how long to
// wait before the next request.
func classAndWait(status int, header http.Header) (failure.Class, time.Duration) {
	class := classOf(status)
	wait, asked := retryafter.Parse(header)
	if status == http.StatusServiceUnavailable && asked {
		class = failure.Throttled
	}
	if class != failure.Throttled {
		wait = 0
	}
	return class, wait
}
