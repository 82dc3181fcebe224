// Package appliance is a client of the REST interface of a network detection
// appliance.
//
// It sends requests, checks that answers have the documented shape, and returns them
// unchanged: numbers and strings are not converted, and only requested parts are parsed.
// It does not retry; its one error type, Error, has what a caller needs to do so.
package appliance

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ndrbridge/internal/lease"
)

// Options configure a Client.
type Options struct {
	// URL is the appliance's scheme and host, without a path.
	URL string
	// Product is the product's name in the authorization scheme, as written, and in
	// paths, in lower case. Empty or "service" means Service and service, as the
	// interface documents.
	Product string
	// SchemeWord is the name in the authorization scheme only; empty means Product.
	SchemeWord string
	// Key returns the API key. It is called for the first request, and again after the
	// key was refused. Exactly one of Key and OAuth must be set.
	Key func() (string, error)
	// OAuth authorizes with tokens instead, as the cloud edition requires.
	OAuth *OAuth
	// Timeout bounds each request including its answer's body; 0 means defaultTimeout.
	Timeout time.Duration
	// RateLimit is the maximum number of requests per second, those for tokens
	// included; a burst may use the allowance of one second. 0 means no limit.
	RateLimit float64
	// TLS is copied; nil means the defaults of crypto/tls.
	TLS *tls.Config
	// Proxy is an http, https or socks5 URL; nil means the proxy of the environment.
	Proxy *url.URL
	// MaxAnswer limits the size of an answer's body in bytes, decompressed; 0 means
	// defaultMaxAnswer.
	MaxAnswer int64
	// UserAgent is what the appliance logs; empty means ndrbridge.
	UserAgent string
	// Observe, if set, is called once for each request sent, with the answer's status
	// as three digits or one of the words dns, connect, tls, timeout, canceled and
	// other. It must be safe for concurrent use.
	Observe func(code string)
	// DateDisbelieved, if set, is called for each answer whose Date header contradicts
	// those before it and is therefore ignored. expected is the appliance's time
	// derived from these, or slightly less. It must be safe for concurrent use and must
	// not block.
	DateDisbelieved func(date, expected time.Time)
	// ClockSet, if set, is called when the offset of the appliance's clock from the
	// local one is first known (first), and when enough answers agree that the clock
	// was set since. It must be safe for concurrent use and must not block.
	ClockSet func(ahead time.Duration, first bool)
	// Lease must be valid when something is sent; nil means that it never ends.
	Lease *lease.Lease
	// Now is the local clock, of which only differences are used; nil means time.Now.
	Now func() time.Time
	// Transport, if set, sends the requests; TLS, Proxy and Lease are then ignored.
	Transport http.RoundTripper
}

// The defaults of Options.
const (
	defaultTimeout         = 30 * time.Second
	defaultMaxAnswer int64 = 16 << 20
)

// Client is a client of one appliance. Its methods are safe for concurrent use, each
// call with its own Page. Their errors are of type *Error.
type Client struct {
	base       url.URL // up to and including /api/v1
	product    string  // the name in paths
	userAgent  string
	maxAnswer  int64
	link       *link
	loan       loan // of no bytes, from which those of pages are made; zero if pages are not limited
	auth       authority
	background bool // its requests have lower priority at the rate limit
	aside      bool // they have a quarter of the rate limit, at lower priority
}

// New returns a Client. It neither contacts the appliance nor reads secrets.
func New(o Options) (*Client, error) {
	base, err := parseBase(o.URL)
	if err != nil {
		return nil, err
	}
	if (o.Key == nil) == (o.OAuth == nil) {
		return nil, errors.New("exactly one of an API key and OAuth must be set")
	}
	c := &Client{
		base:      *base,
		product:   strings.ToLower(cmp.Or(o.Product, "service")),
		userAgent: cmp.Or(o.UserAgent, "ndrbridge"),
		maxAnswer: cmp.Or(o.MaxAnswer, defaultMaxAnswer),
		link:      newLink(o),
	}
	if o.OAuth != nil {
		c.auth, err = newTokenAuthority(*o.OAuth, c.link)
	} else {
		c.auth = &keyAuthority{read: o.Key, scheme: schemeWord(o)}
	}
	return c, err
}

func parseBase(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// The parser's error quotes the URL, which may contain a password.
		return nil, errors.New("the appliance's URL cannot be parsed; write https://host")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the appliance's URL must be http or https with a host, such as https://sensor.example")
	case u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the appliance's URL must be only scheme and host: %s://%s", u.Scheme, u.Host)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/api/v1"}, nil
}

func schemeWord(o Options) string {
	switch {
	case o.SchemeWord != "":
		return o.SchemeWord
	case o.Product == "" || o.Product == "service":
		return "Service"
	}
	return o.Product
}

// Background returns a client of the same appliance, with the same rate limit and
// credentials, whose requests have lower priority than those of c.
func (c *Client) Background() *Client {
	client := *c
	client.background = true
	return &client
}

// Aside returns a client like that of Background, whose requests, with those of other clients
// that Aside returned, use at most a quarter of the rate limit, and whose bound pages count
// against a share of their own in the Budget.
func (c *Client) Aside() *Client {
	client := c.Background()
	client.aside = true
	if b := c.loan.budget; b != nil {
		client.loan.appliance = b.aside
	}
	return client
}

// Close closes idle connections. Calls in flight continue.
func (c *Client) Close() { c.link.close() }

// request is a request to the appliance.
type request struct {
	method string
	path   string // after /api/v1
	query  url.Values
	body   []byte // JSON, or nil
	err    error  // why it cannot be sent
	// repeatable marks a POST that changes nothing on the appliance.
	repeatable bool
	// stamp, if set, receives the time of the answer.
	stamp *stamp
	// signedIn, if set, receives the credential of the answered request.
	signedIn *credential
	// alone closes the connection after the answer.
	alone bool
	// notFound is the advice for a 404; empty if a 404 is an ordinary answer.
	notFound string
	// small limits the answer to maxSmall bytes, even if Options.MaxAnswer is larger.
	small bool
	// waited means that it has waited for its turn in the quarter of the rate limit.
	waited bool
}

// do sends r, a second time if it was refused and there is a new credential, and passes
// an answer of status 2xx to read. The rest of the body that read does not consume is
// discarded.
func (c *Client) do(ctx context.Context, r request, read func(*http.Response) error) error {
	if r.err != nil {
		return c.wrap(r, r.err)
	}
	if !r.waited {
		if err := c.waitAside(ctx); err != nil {
			return c.wrap(r, err)
		}
	}
	var refusal *Error
	var refused credential
	for {
		cred, err := c.auth.credential(ctx)
		switch {
		case err != nil:
			return c.wrap(r, err)
		case refusal != nil && cred.header == refused.header:
			return refusal
		}
		e := c.send(ctx, r, cred, read)
		if e == nil {
			if r.signedIn != nil {
				*r.signedIn = cred
			}
			return nil
		}
		if !e.Refused() || refusal != nil {
			return e
		}
		c.auth.refused(cred)
		refusal, refused = e, cred
	}
}

// waitAside waits until a request aside may be sent within the quarter of the rate limit. The
// credential of a refused one is replaced without another wait.
func (c *Client) waitAside(ctx context.Context) error {
	if !c.aside || c.link.quarter == nil {
		return nil
	}
	if err := c.link.quarter.Wait(ctx); err != nil {
		return fmt.Errorf("wait for a quarter of the rate limit: %w", err)
	}
	return nil
}

// wrap returns an *Error for a failure before r was sent.
func (c *Client) wrap(r request, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Method: r.method, Path: c.base.Path + r.path, Err: err}
}

// encode sets the body. Errors call the value what.
func (r *request) encode(what string, value any) {
	if r.body, r.err = json.Marshal(value); r.err != nil {
		r.err = fmt.Errorf("encode the %s: %w", what, r.err)
	}
}

// maxSmall limits an answer with a single value, such as a version.
const maxSmall = 1 << 20

// maxDrain limits what is read of an unused body to keep the connection.
const maxDrain = 64 << 10

func (c *Client) send(ctx context.Context, r request, cred credential, read func(*http.Response) error) *Error {
	e := &Error{Method: r.method, Path: c.base.Path + r.path}
	ctx, cancel, err := c.link.admit(ctx, c.background)
	if err != nil {
		e.Err = err
		return e
	}
	defer cancel()
	u := c.base
	u.Path += r.path
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		e.Err = err
		return e
	}
	req.Close = r.alone
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", cred.header)
	req.Header.Set("User-Agent", c.userAgent)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.repeatable {
		// An empty key is not sent, but allows net/http to repeat the request if the
		// appliance has just closed an idle connection.
		req.Header["Idempotency-Key"] = []string{}
	}
	clock := c.link.clock
	sent := clock.now()
	resp, err := c.link.http.Do(req)
	if err != nil {
		e.Err = c.link.explain(err, "url", &c.base, c.link.secrets(cred.secrets...))
		return e
	}
	c.link.answers.Store(true)
	resp.Request = req // a transport may leave it unset
	defer func() {
		io.CopyN(io.Discard, resp.Body, maxDrain)
		resp.Body.Close()
	}()
	if resp.StatusCode/100 != 2 {
		secrets := c.link.secrets(cred.secrets...)
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxDrain))
		if err != nil { // the part that was read is enough for an excerpt
			body = []byte(secrets.HideBeginning(string(body)))
		}
		e.answered(resp, body, secrets, r.notFound, c.auth.advice())
		e.RetryAfter = clock.retryAfter(resp.Header, sent)
		return e
	}
	// An answer of another status may be from a proxy, which has its own clock.
	given := clock.learn(resp.Header, sent, clock.now())
	if r.stamp != nil {
		*r.stamp = given
	}
	e.Status = resp.StatusCode
	e.RetryAfter = clock.retryAfter(resp.Header, sent)
	switch err := read(resp).(type) {
	case nil:
		return nil
	case *contentError:
		secrets := c.link.secrets(cred.secrets...)
		e.Excerpt, e.Err = shorten(secrets.Hide(err.excerpt)), secrets.HideError(err.err)
		e.Foreign = foreign(resp.Header, err.page, secrets)
	default:
		e.Err = c.link.explain(err, "url", &c.base, c.link.secrets(cred.secrets...))
	}
	return e
}
