package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"ndrbridge/internal/redact"
	"ndrbridge/internal/retryafter"
)

// ErrTooLarge is wrapped by an *Error if an answer's body is larger than
// Options.MaxAnswer.
var ErrTooLarge = errors.New("the answer is larger than allowed")

// ErrNoMemory is wrapped by an *Error if the Budget had no memory for the rest of an
// answer within the time of a request. The page's next request waits for as much before it
// is sent.
var ErrNoMemory = errors.New("the answers of other requests use the memory that this one needs")

// wrongAddress is the advice for a 404 on a path that every appliance has.
const wrongAddress = "check that url is the appliance's own address, and that product is its name in paths"

// notOffered is the advice for a 404 on a path that not every appliance has.
const notOffered = "the appliance does not offer this; if it should, " + wrongAddress

// Error is a failed call. It never contains the key, the secret or a token, even if the
// server repeated them.
type Error struct {
	// Method and Path are those of the request, to the interface or to the token
	// endpoint.
	Method, Path string
	// Status is the answer's status; 0 if there was no answer, or one of the token
	// endpoint without a token. It is 2xx if the answer's content was not as
	// documented.
	Status int
	// RetryAfter is the wait that the answer requested, up to retryafter.Max; 0 if
	// none.
	RetryAfter time.Duration
	// Excerpt is the beginning of the answer's message, at most 256 printable
	// characters.
	Excerpt string
	// Foreign describes an answer that does not look like an appliance's, by its Content-Type
	// and Server, such as "text/html from nginx"; empty if it does.
	Foreign string
	// Err is the cause, or advice; it may be nil if Status is sufficient. If the
	// caller's context ended the call, Err wraps the context's error.
	Err error
}

// Error returns the request, the answer and the advice.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", e.Method, e.Path)
	switch {
	case e.Status != 0:
		fmt.Fprintf(&b, "answered %d", e.Status)
		if text := http.StatusText(e.Status); text != "" {
			b.WriteString(" " + text)
		}
		if e.Foreign != "" {
			b.WriteString(" with " + e.Foreign)
		}
		if e.Excerpt != "" {
			fmt.Fprintf(&b, ", %q", e.Excerpt)
		}
		if e.RetryAfter > 0 {
			fmt.Fprintf(&b, ", retry after %s", e.RetryAfter)
		}
		if e.Err != nil {
			b.WriteString(": " + e.cause())
		}
	case e.Err != nil:
		b.WriteString(e.cause())
	}
	return b.String()
}

func (e *Error) cause() string {
	text := e.Err.Error()
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}

// HTTPStatus returns Status.
func (e *Error) HTTPStatus() int { return e.Status }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// refusals are messages that appliances and token endpoints send with a 400 caused by
// the token or the credentials (RFC 6749, section 5.2).
var refusals = []string{
	"invalid", "The specified access token is invalid",
	"invalid_client", "unauthorized_client",
}

// Refused reports whether the key, token or secret was not accepted.
func (e *Error) Refused() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusBadRequest:
		// Some appliances end the message with a literal backslash and n.
		message := strings.TrimSpace(strings.TrimSuffix(e.Excerpt, `\n`))
		return slices.Contains(refusals, strings.TrimSuffix(message, "."))
	}
	return false
}

// privilegePattern matches a privilege with a level, as in users' roles.
var privilegePattern = regexp.MustCompile(`\b(system|write|metrics|ndr|npm|packets)"?\s?[:=]\s?"?(full_with_keys|full|limited|personal|restricted|slices_only)\b`)

// Privileges returns the privileges that a 403 names in its message, as in "ndr: full, write:
// limited"; empty if it names none.
func (e *Error) Privileges() string {
	if e.Status != http.StatusForbidden {
		return ""
	}
	var named []string
	for _, match := range privilegePattern.FindAllStringSubmatch(e.Excerpt, -1) {
		if text := match[1] + ": " + match[2]; !slices.Contains(named, text) {
			named = append(named, text)
		}
	}
	return strings.Join(named, ", ")
}

// Throttled reports whether the appliance asked for fewer requests.
func (e *Error) Throttled() bool {
	return e.Status == http.StatusTooManyRequests ||
		e.Status == http.StatusServiceUnavailable && e.RetryAfter > 0
}

// maxErrorText limits the text of an Error's cause, which may quote a header, in bytes.
const maxErrorText = 2 << 10

// answered fills e in from an unsuccessful answer, without secrets that it repeats. notFound
// and refused are the advice for a 404 and for a refusal; empty means none.
func (e *Error) answered(resp *http.Response, body []byte, secrets redact.Secrets, notFound, refused string) {
	e.Status = resp.StatusCode
	e.RetryAfter, _ = retryafter.Parse(resp.Header)
	e.Excerpt = shorten(secrets.Hide(excerpt(body))) // in this order: part of a secret could not be found
	e.Foreign = foreign(resp.Header, isPage(body), secrets)
	advice := ""
	switch {
	case e.Status/100 == 3:
		e.Err = redirected(resp, secrets)
		return
	case e.Status == http.StatusNotFound:
		advice = notFound
	case e.Status == http.StatusProxyAuthRequired:
		advice = proxyAuthAdvice
	case e.Refused():
		advice = refused
		if lacks := e.Privileges(); lacks != "" {
			advice = "on the appliance, grant the owner of the credentials " + lacks
		}
	}
	if advice != "" {
		e.Err = errors.New(advice)
	}
}

// foreign returns Error.Foreign of an answer that is a page or not. The interface answers with
// JSON, and sometimes with plain text.
func foreign(header http.Header, page bool, secrets redact.Secrets) string {
	kind, _, _ := mime.ParseMediaType(secrets.Hide(printable(header.Get("Content-Type"))))
	if kind == "" || kind == "text/plain" || strings.HasSuffix(kind, "json") {
		if !page {
			return ""
		}
		kind = "a page"
	}
	if server := header.Get("Server"); server != "" {
		kind += " from " + secrets.Hide(printable(server))
	}
	return shorten(kind)
}

// isPage reports whether a body is HTML or XML.
func isPage(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) }

const proxyAuthAdvice = "the proxy requires a user name and a password: set them in proxy"

// redirected returns an error with the target of a redirect, without parts that may be
// secret.
func redirected(resp *http.Response, secrets redact.Secrets) error {
	location, err := resp.Location()
	if err != nil {
		return errors.New("redirects are not followed: configure the final address")
	}
	return fmt.Errorf("redirected to %s://%s%s; redirects are not followed: configure the final address",
		location.Scheme, secrets.Hide(location.Host), secrets.Hide(printable(location.Path)))
}
