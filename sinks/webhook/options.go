package webhook

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ndrbridge/sinks/webhook/render"
	"ndrbridge/sinks/webhook/signature"
	"ndrbridge/transform"
)

// Options say where a webhook is and how it is spoken to.
type Options struct {
	// URL is an http or https URL. Credentials in it are sent by the Basic
	// scheme (RFC 7617). Its path and query are taken for secrets.
	URL string
	// Method is POST, PUT or PATCH; empty: POST.
	Method string
	// Headers go with every request. A Content-Type among them replaces the
	// one that the mode calls for.
	Headers map[string]string
	// Bearer is a bearer token (RFC 6750); empty: none.
	Bearer string
	// Username and Password are credentials of the Basic scheme; both empty:
	// none.
	Username, Password string
	// Mode is structured, binary or batch; empty: structured.
	Mode transform.Mode
	// Preset speaks the protocol of a service instead; nil: CloudEvents. Mode is
	// empty or structured then.
	Preset Preset
	// Memory is where a Preset that is a Remembering remembers; nil: it does not.
	Memory *Memory
	// Template makes the bodies instead, one for each event; nil: CloudEvents. Mode is
	// empty or structured then, and Preset nil. The content type is that of JSON
	// where Headers has no other. An event that it fails for is rejected.
	Template *render.Template
	// SignSecrets sign every request as Standard Webhooks says, each with a signature
	// of its own, so that a receiver may know the old or the new one of two. See
	// signature.ParseKey. They go neither with Gzip, since receivers do not agree on
	// whether a signature is of the body before or after it, nor with Preset. Nor with
	// mode binary: the signature is of the body, and whoever has one such request could
	// send it again as another event, whose attributes are in the header.
	SignSecrets []string
	// Handshake asks for the receiver's consent before the first event; nil: none. It
	// does not go with Preset.
	Handshake *Handshake
	// MaxBodyBytes is how large a body may be, before it is compressed; 0: 10 MiB. An
	// event that needs a larger one is rejected without being sent.
	MaxBodyBytes int
	// AllowLinkLocal permits connections to link-local addresses (RFC 3927, RFC 4291
	// section 2.5.6) and to those where clouds keep the credentials of machines.
	// With a proxy it is the proxy's address that is connected to: where the proxy
	// goes from there, only its own configuration decides.
	AllowLinkLocal bool
	// Concurrency is how many requests may be in flight; 1 or less: one.
	Concurrency int
	// Gzip compresses bodies (RFC 9110, section 8.4.1.3) that it makes notably
	// smaller. Not every target understands that: there is no way to ask.
	Gzip bool
	// Timeout bounds one request from the dial to the end of its answer; 0: 30
	// seconds.
	Timeout time.Duration
	// TLS is copied; nil: Go's defaults.
	TLS *tls.Config
	// Proxy is an http, https or socks5 URL; nil: what HTTP_PROXY, HTTPS_PROXY
	// and NO_PROXY say.
	Proxy *url.URL
	// UserAgent is sent as it is; empty: ndrbridge.
	UserAgent string
}

const (
	defaultTimeout = 30 * time.Second
	defaultMaxBody = 10 << 20
)

// The sizes that a header may have: servers as a rule allow no more.
const (
	maxField  = 8 << 10
	maxHeader = 16 << 10
)

// template checks the options and makes the request that all requests of a sink
// are copies of.
func (o Options) template() (*http.Request, error) {
	target, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	method := strings.ToUpper(o.Method)
	if method == "" {
		method = http.MethodPost
	}
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, method) {
		return nil, fmt.Errorf("method %q is none of POST, PUT, PATCH", o.Method)
	}
	if err := o.conflict(); err != nil {
		return nil, err
	}
	header, err := o.header(target.User)
	if err != nil {
		return nil, err
	}
	target.User = nil
	return &http.Request{
		Method:     method,
		URL:        target,
		Host:       target.Host,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     header,
	}, nil
}

// conflict tells options that do not go together.
func (o Options) conflict() error {
	switch {
	case o.Template != nil && o.Preset != nil:
		return errors.New("a template and a preset: each makes the body")
	case o.Template != nil && o.Mode != "" && o.Mode != transform.Structured:
		return fmt.Errorf("mode %q says nothing to a template", o.Mode)
	case len(o.SignSecrets) > 0 && o.Preset != nil:
		return errors.New("sign and a preset: its service reads no signatures")
	case len(o.SignSecrets) > 0 && o.Gzip:
		return errors.New("sign and gzip: receivers do not agree on which body is signed")
	case len(o.SignSecrets) > 0 && o.Mode == transform.Binary:
		return errors.New("sign and mode binary: the attributes, in the header, would not be signed")
	case o.Handshake != nil && o.Preset != nil:
		return errors.New("handshake and a preset: its service knows none")
	case o.MaxBodyBytes < 0:
		return fmt.Errorf("a body of at most %d bytes", o.MaxBodyBytes)
	}
	return o.Handshake.check()
}

// parseURL tells what is wrong without the URL's text, which may hold a token.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("url cannot be parsed: is a character of its password, path or query to be percent-encoded?")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("url begins neither with http:// nor with https://")
	case u.Hostname() == "":
		return nil, errors.New("url names no host")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// header makes the fields that every request carries.
func (o Options) header(user *url.Userinfo) (http.Header, error) {
	header := http.Header{
		"User-Agent": {"ndrbridge"},
		// An empty key is not sent; it lets the transport repeat a request on a
		// new connection when the server closed an idle one under it.
		"Idempotency-Key": nil,
	}
	if o.UserAgent != "" {
		if !validValue(o.UserAgent) {
			return nil, errors.New("user agent: a line break or another control character in it")
		}
		header.Set("User-Agent", o.UserAgent)
	}
	switch o.Mode {
	case "", transform.Structured:
		header.Set("Content-Type", transform.ContentTypeStructured)
	case transform.Binary:
		header.Set("Content-Type", transform.ContentTypeData)
	case transform.Batch:
		header.Set("Content-Type", transform.ContentTypeBatch)
	default:
		return nil, fmt.Errorf("mode %q is none of structured, binary, batch", o.Mode)
	}

	var service Service
	if o.Preset != nil {
		if header.Get("Content-Type") != transform.ContentTypeStructured {
			return nil, fmt.Errorf("mode %q says nothing to a preset", o.Mode)
		}
		service = o.Preset.Service()
	}
	if o.Preset != nil || o.Template != nil {
		header.Set("Content-Type", transform.ContentTypeData)
	}

	if o.Handshake != nil {
		header.Set("Origin", o.Handshake.Origin)
	}

	given := 0 // ways to authenticate
	for name, value := range service.Header {
		if name == "Authorization" {
			given++
		}
		if !validValue(value) {
			return nil, fmt.Errorf("preset: %s: a line break or another control character in it", name)
		}
		header.Set(name, value)
	}
	for name, value := range o.Headers {
		name = http.CanonicalHeaderKey(name)
		switch {
		case !validName(name):
			return nil, fmt.Errorf("headers: %q is no header name", name)
		case !validValue(value):
			return nil, fmt.Errorf("headers: %s: a line break or another control character in it", name)
		case slices.Contains(reserved, name), strings.HasPrefix(name, "Ce-"),
			len(o.SignSecrets) > 0 && slices.Contains(signature.Fields(), name),
			o.Handshake != nil && name == "Origin":
			return nil, fmt.Errorf("headers: %s is not free to choose", name)
		case name == "Authorization":
			given++
		}
		header[name] = []string{value}
	}
	if o.Bearer != "" {
		given++
		header.Set("Authorization", "Bearer "+o.Bearer)
	}
	if o.Username != "" || o.Password != "" {
		given++
		header.Set("Authorization", basic(o.Username, o.Password))
	}
	if user != nil {
		given++
		password, _ := user.Password()
		header.Set("Authorization", basic(user.Username(), password))
	}
	if given > 1 {
		return nil, errors.New("more than one of a bearer token, a user name, credentials in url, and an Authorization header")
	}
	if !validValue(header.Get("Authorization")) {
		return nil, errors.New("the bearer token holds a line break or another control character")
	}
	return header, checkSize(header)
}

// checkSize tells a header that is too large, or the field of it that is.
func checkSize(header http.Header) error {
	all := 0
	for name, values := range header {
		size := 0
		for _, value := range values {
			size += len(name) + len(": ") + len(value) + len("\r\n")
		}
		if size > maxField {
			return fmt.Errorf("the header field %s has %d bytes; servers take %d", name, size, maxField)
		}
		all += size
	}
	if all > maxHeader {
		return fmt.Errorf("the header has %d bytes; servers take %d", all, maxHeader)
	}
	return nil
}

func basic(username, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

// reserved are the header fields that HTTP's framing owns.
var reserved = []string{
	"Connection", "Content-Encoding", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// validName reports whether name is a token (RFC 9110, section 5.6.2).
func validName(name string) bool {
	for _, c := range []byte(name) {
		deadLetter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !deadLetter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return name != ""
}

// validValue reports whether value can be a field's value (RFC 9110, section 5.5).
func validValue(value string) bool {
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
