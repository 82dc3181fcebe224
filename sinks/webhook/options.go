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
	"ndrbridge/sinks/webhook/render"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// Options configure a Sink.
type Options struct {
	// URL is an http or https URL. Credentials in it are sent by the Basic scheme (RFC
	// 7617). Its path and query are treated as secrets.
	URL string
	// Method is POST, PUT or PATCH; empty means POST.
	Method string
	// Headers are sent with every request. A Content-Type among them replaces that of
	// the mode.
	Headers map[string]string
	// Bearer is a bearer token (RFC 6750); empty means none.
	Bearer string
	// Username and Password are credentials of the Basic scheme; both empty means none.
	Username, Password string
	// OAuth authorizes requests with tokens; nil means none. Token requests use TLS, but
	// its ServerName only for the host of URL, Proxy, Lease and AllowLinkLocal, and count
	// towards the Timeout of the request that needs the token.
	OAuth *OAuth
	// Mode is structured, binary or batch; empty means structured.
	Mode transform.Mode
	// Format is the format of the events' documents; empty means CloudEvents. A Preset
	// sends the documents in its own way.
	Format format.Name
	// BatchEncoding requires Mode batch and documents of JSON; empty means BatchJSON.
	BatchEncoding BatchEncoding
	// Preset speaks the protocol of a service instead of CloudEvents; nil means none.
	// With a Preset, Mode must be empty or structured.
	Preset *Preset
	// Memory stores what the Preset remembers; nil means that it remembers nothing.
	Memory *Memory
	// Template renders a body for each event instead of CloudEvents; nil means none.
	// With a Template, Mode must be empty or structured, and Preset nil. The content
	// type is JSON unless Headers has another. An event that cannot be rendered is
	// rejected.
	Template *render.Template
	// SignSecrets sign every request as Standard Webhooks defines, each with a
	// signature of its own, so that secrets can be rotated. See ParseSignKey.
	// They cannot be combined with Preset, nor with Gzip, because receivers differ on
	// whether the compressed body is signed, nor with mode binary, because only the
	// body is signed: anyone holding one such request could send it again with other
	// attributes in its header.
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

// request checks the options and returns the request that every request of the sink is
// copied from.
func (o Options) request() (*http.Request, error) {
	target, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	method := cmp.Or(strings.ToUpper(o.Method), http.MethodPost)
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, method) {
		return nil, fmt.Errorf("method %q is not POST, PUT or PATCH", o.Method)
	}
	if err := o.conflict(); err != nil {
		return nil, err
	}
	header, err := o.header(target.User)
	if err != nil {
		return nil, err
	}
	target.User = nil
	return &http.Request{Method: method, URL: target, Host: target.Host, Header: header}, nil
}

// conflict reports options that cannot be combined.
func (o Options) conflict() error {
	switch {
	case o.Template != nil && o.Preset != nil:
		return errors.New("a template and a preset: each makes the body")
	case o.Template != nil && o.Mode != "" && o.Mode != transform.Structured:
		return fmt.Errorf("mode %q has no effect with a template", o.Mode)
	case len(o.SignSecrets) > 0 && o.Preset != nil:
		return errors.New("sign and a preset: its service does not verify signatures")
	case len(o.SignSecrets) > 0 && o.Gzip:
		return errors.New("sign and gzip: receivers differ on which body is signed")
	case len(o.SignSecrets) > 0 && o.Mode == transform.Binary:
		return errors.New("sign and mode binary: the attributes, in the header, would not be signed")
	case o.MaxBodyBytes < 0:
		return fmt.Errorf("the maximum body size %d is negative", o.MaxBodyBytes)
	}
	if err := o.checkFormat(); err != nil {
		return err
	}
	return o.OAuth.check()
}

// parseURL parses a URL. Its errors do not quote the text, which may contain a token.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("url cannot be parsed: percent-encode special characters in its password, path and query")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("url must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("url has no host")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// header returns the fields that every request carries. user holds the credentials of URL.
func (o Options) header(user *url.Userinfo) (http.Header, error) {
	contentType, err := o.contentType()
	if err != nil {
		return nil, err
	}
	header := http.Header{
		"Content-Type": {contentType},
		// A nil key is not sent, but allows the transport to repeat a request on a
		// new connection if the server closed the idle one.
		"Idempotency-Key": nil,
		"User-Agent":      {cmp.Or(o.UserAgent, "ndrbridge")},
	}
	if !validValue(o.UserAgent) {
		return nil, fmt.Errorf("user agent: %w", errControl)
	}
	given := 0 // credentials
	if o.Preset != nil {
		for name, value := range o.Preset.Header {
			if !validValue(value) {
				return nil, fmt.Errorf("preset: %s: %w", name, errControl)
			}
			if name == "Authorization" {
				given++
			}
			header.Set(name, value)
		}
	}
	for name, value := range o.Headers {
		name = http.CanonicalHeaderKey(name)
		switch {
		case !validName(name):
			return nil, fmt.Errorf("headers: %q is not a valid header name", name)
		case !validValue(value):
			return nil, fmt.Errorf("headers: %s: %w", name, errControl)
		case o.sets(name):
			return nil, fmt.Errorf("headers: %s is set by the bridge and cannot be configured", name)
		case name == "Authorization":
			given++
		}
		header[name] = []string{value}
	}
	password, _ := user.Password()
	for _, c := range []struct {
		given       bool
		credentials string
	}{
		{o.Bearer != "", "Bearer " + o.Bearer},
		{o.Username != "" || o.Password != "", basic(o.Username, o.Password)},
		{user != nil, basic(user.Username(), password)},
	} {
		if c.given {
			given++
			header.Set("Authorization", c.credentials)
		}
	}
	if o.OAuth != nil {
		given++
	}
	if given > 1 {
		return nil, errors.New("only one of a bearer token, a user name, OAuth, credentials in url, and an Authorization header can be set")
	}
	if !validValue(header.Get("Authorization")) {
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

// validName reports whether name is a token (RFC 9110, section 5.6.2).
func validName(name string) bool {
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return name != "" && strings.Trim(name, token) == ""
}

// validValue reports whether value is a valid field value (RFC 9110, section 5.5).
func validValue(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}
