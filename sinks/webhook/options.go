package webhook

import (
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ndrbridge/internal/lease"
	"ndrbridge/internal/oauthtoken"
	"ndrbridge/sinks/webhook/render"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// Options configure a Sink. The configuration has checked which of them can be combined.
type Options struct {
	// URL is an http or https URL. Credentials in it are sent by the Basic scheme (RFC
	// 7617). Its path and query are treated as secrets.
	URL string
	// Method is the method of requests that carry events; empty means POST.
	Method string
	// Headers are sent with every request. A Content-Type among them replaces that of
	// the mode.
	Headers map[string]string
	// Bearer is a bearer token (RFC 6750); empty means none. At most one of Bearer, Username,
	// OAuth, credentials in URL and an Authorization header is set.
	Bearer string
	// Username and Password are credentials of the Basic scheme; both empty means none.
	Username, Password string
	// OAuth authorizes requests with tokens; nil means none. A token is used until a tenth of its
	// lifetime is left, or until a request is refused with status 401; that request is then sent
	// once more, with a new token. Token requests use TLS, but its ServerName only for the host of
	// URL, Proxy, Lease and AllowLinkLocal, and count towards the Timeout of the request that needs
	// the token.
	OAuth *oauthtoken.Grant
	// Mode is structured, binary or batch; empty means structured.
	Mode transform.Mode
	// Format is the format of the events' documents; empty means CloudEvents. A Preset
	// sends the documents in its own way.
	Format format.Name
	// Lines makes a batch hold one document of JSON per line instead of an array.
	Lines bool
	// Preset speaks the protocol of a service instead of CloudEvents; nil means none.
	Preset *Preset
	// Expect describes the answers that acknowledge events; nil means every answer of 2xx that
	// is not an HTML page. It is nil with a Preset.
	Expect *Expect
	// Memory stores what the Preset remembers; nil means that it remembers nothing.
	Memory *Memory
	// Template renders a body for each event instead of CloudEvents; nil means none. The
	// content type is JSON unless Headers has another. An event that cannot be rendered is
	// rejected.
	Template *render.Template
	// SignSecrets sign every request as Standard Webhooks defines, each with a
	// signature of its own, so that secrets can be rotated. See ParseSignKey.
	SignSecrets []string
	// MaxBodyBytes limits a body before compression; 0 means 10 MiB. An event that
	// needs a larger one is rejected without being sent.
	MaxBodyBytes int
	// AllowLinkLocal permits connections to link-local addresses (RFC 3927, RFC 4291
	// section 2.5.6) and to the metadata addresses of clouds, which serve machine
	// credentials. With a proxy it applies to the proxy's own address only; what the
	// proxy connects to is decided by the proxy's configuration.
	AllowLinkLocal bool
	// Concurrency is the maximum number of requests in flight; 1 or less means one.
	Concurrency int
	// Gzip compresses bodies of 1 KiB or more (RFC 9110, section 8.4.1.3). Whether a
	// target supports that cannot be determined in advance.
	Gzip bool
	// Timeout bounds one request, from the dial to the end of the answer; 0 means 30
	// seconds.
	Timeout time.Duration
	// TLS is copied; nil means Go's defaults.
	TLS *tls.Config
	// Proxy is an http, https or socks5 URL; nil means HTTP_PROXY, HTTPS_PROXY and
	// NO_PROXY from the environment.
	Proxy *url.URL
	// UserAgent is the User-Agent field; empty means ndrbridge.
	UserAgent string
	// Lease must be valid when something is sent; nil means that it never ends.
	Lease *lease.Lease
}

const (
	defaultTimeout = 30 * time.Second
	defaultMaxBody = 10 << 20
)

// The largest header and header field, in bytes, that servers commonly accept.
const (
	maxField  = 8 << 10
	maxHeader = 16 << 10
)

// request returns the request that every request of the sink is copied from. It checks what may
// change after the configuration was checked, because it is in a file.
func (o Options) request() (*http.Request, error) {
	target, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	header, err := o.header(target.User)
	if err != nil {
		return nil, err
	}
	target.User = nil
	return &http.Request{Method: cmp.Or(o.Method, http.MethodPost), URL: target, Host: target.Host, Header: header}, nil
}

// parseURL parses a URL. Its errors do not quote the text, which may contain a token.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("url must be http:// or https:// and a host; percent-encode special characters in its password, path and query")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// header returns the fields that every request carries. user holds the credentials of URL.
func (o Options) header(user *url.Userinfo) (http.Header, error) {
	header := http.Header{
		"Content-Type": {o.contentType()},
		// A nil key is not sent, but allows the transport to repeat a request on a
		// new connection if the server closed the idle one.
		"Idempotency-Key": nil,
		"User-Agent":      {cmp.Or(o.UserAgent, "ndrbridge")},
	}
	bearer := ""
	if o.Preset != nil {
		bearer = o.Preset.Bearer
		for name, value := range o.Preset.Header {
			if !validValue(value) {
				return nil, fmt.Errorf("preset: %s: %w", name, errControl)
			}
			header.Set(name, value)
		}
	}
	for name, value := range o.Headers {
		name = http.CanonicalHeaderKey(name)
		switch {
		case !validValue(value):
			return nil, fmt.Errorf("headers: %s: %w", name, errControl)
		case o.sets(name):
			return nil, fmt.Errorf("headers: %s is set by the bridge and cannot be configured", name)
		}
		header[name] = []string{value}
	}
	password, _ := user.Password()
	switch {
	case user != nil && (o.Bearer != "" || o.Username != "" || o.Password != "" || o.OAuth != nil): // url may be in a file
		return nil, errors.New("url has credentials, and others are set: remove either")
	case o.Bearer != "":
		field, scheme, _ := strings.Cut(cmp.Or(bearer, "Authorization: Bearer "), ": ")
		header.Set(field, scheme+o.Bearer)
	case o.Username != "" || o.Password != "":
		header.Set("Authorization", basic(o.Username, o.Password))
	case user != nil:
		header.Set("Authorization", basic(user.Username(), password))
	}
	if !validValue(header.Get("Authorization")) || !validValue(o.Bearer) {
		return nil, errors.New("the bearer token contains a line break or another control character")
	}
	return header, checkSize(header)
}

var errControl = errors.New("it contains a line break or another control character")

// sets reports whether the bridge sets a header field itself.
func (o Options) sets(name string) bool {
	return slices.Contains(reserved, name) || strings.HasPrefix(name, "Ce-") ||
		len(o.SignSecrets) > 0 && slices.Contains(SignatureFields(), name)
}

// checkSize returns an error if the header or one of its fields is too large.
func checkSize(header http.Header) error {
	total := 0
	for name, values := range header {
		size := 0
		for _, value := range values {
			size += len(name) + len(": ") + len(value) + len("\r\n")
		}
		if size > maxField {
			return fmt.Errorf("the header field %s has %d bytes; servers accept at most %d", name, size, maxField)
		}
		total += size
	}
	if total > maxHeader {
		return fmt.Errorf("the header has %d bytes; servers accept at most %d", total, maxHeader)
	}
	return nil
}

func basic(username, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

// reserved lists the header fields that belong to HTTP's framing.
var reserved = []string{
	"Connection", "Content-Encoding", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// validValue reports whether value is a valid field value (RFC 9110, section 5.5).
func validValue(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}
