package appliance

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ndrbridge/internal/redact"
	"ndrbridge/internal/retryafter"
)

// ErrTooLarge says that an answer's body has more bytes than Options.MaxAnswer
// allows. It comes within an *Error.
var ErrTooLarge = errors.New("the answer is larger than is allowed")

// ErrNoMemory says that the Budget had no memory for the rest of an answer in the time
// that a request may take. The next Client.Reserve of the page waits for as much. It comes
// within an *Error.
var ErrNoMemory = errors.New("the answers of other requests take the memory that this one needs")

// wrongAddress is advice on a 404 where every appliance has the path.
const wrongAddress = "is url the appliance's own address, and product its word in paths?"

// Error is a call that failed. No part of it holds the key, the secret or a
// token, even where the server repeated them.
type Error struct {
	// Method and Path are those of the request: the call's own, or the token
	// endpoint's.
	Method, Path string
	// Status is the answer's; 0 where there was none, or one of the token endpoint
	// that holds no token. It can be 2xx, where the answer was not what the
	// interface says.
	Status int
	// RetryAfter is the wait that the answer asked for, up to
	// retryafter.Max; 0: none.
	RetryAfter time.Duration
	// Excerpt is what the answer's body says, at most 256 printable characters.
	Excerpt string
	// Err is the cause, or what to do; it can be nil where Status says it all.
	// Where the context given ended the call, it wraps that context's error.
	Err error
}

// Error tells what was tried, what came back and what to do.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", e.Method, e.Path)
	switch {
	case e.Status != 0:
		fmt.Fprintf(&b, "answered %d", e.Status)
		if text := http.StatusText(e.Status); text != "" {
			b.WriteString(" " + text)
		}
		if e.Excerpt != "" {
			fmt.Fprintf(&b, ", %q", e.Excerpt)
		}
		if e.RetryAfter > 0 {
			fmt.Fprintf(&b, ", to be tried again after %s", e.RetryAfter)
		}
		if e.Err != nil {
			fmt.Fprintf(&b, ": %v", e.Err)
		}
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// refusals are what appliances and token endpoints say with a 400 that is about
// the token or the credentials (RFC 6749, section 5.2).
var refusals = []string{
	"invalid", "The specified access token is invalid",
	"invalid_client", "unauthorized_client",
}

// Refused reports that the key, token or secret was not accepted.
func (e *Error) Refused() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusBadRequest:
		// Some write the end of the line as a backslash and an n.
		said := strings.TrimSpace(strings.TrimSuffix(e.Excerpt, `\n`))
		return slices.Contains(refusals, strings.TrimSuffix(said, "."))
	}
	return false
}

// Throttled reports that the appliance asked to be asked less often.
func (e *Error) Throttled() bool {
	return e.Status == http.StatusTooManyRequests ||
		e.Status == http.StatusServiceUnavailable && e.RetryAfter > 0
}

// redact removes secrets from what the server had a part in, and only then cuts
// the excerpt: half a secret could not be found.
func (e *Error) redact(words []string) {
	secrets := redact.New(words...)
	e.Excerpt = shorten(secrets.Hide(e.Excerpt))
	if e.Err == nil {
		return
	}
	text := e.Err.Error()
	shown := secrets.Hide(text)
	if len(shown) > maxErrorText { // a header's value can be in it
		shown = strings.ToValidUTF8(shown[:maxErrorText], "") + "…"
	}
	if shown != text {
		e.Err = &redactedError{shown, e.Err}
	}
}

// maxErrorText bounds the text of an Error's cause, in bytes.
const maxErrorText = 2 << 10

// redactedError is an error that is printed with another text.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// answered fills e in from an answer that is no success. notFound and refused
// are what to do about a 404 and about a refusal; empty: nothing.
func (e *Error) answered(resp *http.Response, body []byte, notFound, refused string) {
	e.Status = resp.StatusCode
	e.RetryAfter, _ = retryafter.Parse(resp.Header)
	e.Excerpt = excerpt(body)
	advice := ""
	switch {
	case e.Status/100 == 3:
		e.Err = redirected(resp)
		return
	case e.Status == http.StatusNotFound:
		advice = notFound
	case e.Status == http.StatusProxyAuthRequired:
		advice = isProxyAuthRequired
	case e.Refused():
		advice = refused
	}
	if advice != "" {
		e.Err = errors.New(advice)
	}
}

const isProxyAuthRequired = "the proxy wants a user name and a password: write them into proxy"

// redirected names where an answer pointed, without what may be secret in it.
func redirected(resp *http.Response) error {
	location, err := resp.Location()
	if err != nil {
		return errors.New("redirects are not followed: write the right address into the configuration")
	}
	return fmt.Errorf("it points to %s://%s%s, and redirects are not followed: write the right address into the configuration",
		location.Scheme, location.Host, printable(location.Path))
}
