// Package appliance is a client of the REST interface of a network detection
// appliance.
//
// It asks, checks that the answer is what the interface says, and hands it on
// as it came: numbers and strings are not converted, and nothing is parsed that
// no one asked for. It does not decide when to ask again; its one error type,
// Error, says what a caller needs for that.
package appliance

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"ndrbridge/internal/redact"
)

// Options say where an appliance is and how to talk to it.
type Options struct {
	// URL is scheme and host of the appliance, without a path.
	URL string
	// Product is the product's word in the authorization scheme, as written, and
	// in paths, in lower case. Empty or "service": the interface's own Service
	// and service.
	Product string
	// SchemeWord is the word in the authorization scheme alone; empty: Product's.
	SchemeWord string
	// Key returns the API key. It is called at the first request, and again
	// after the key was refused. Exactly one of Key and OAuth is set.
	Key func() (string, error)
	// OAuth signs in with tokens instead, as the cloud edition wants it.
	OAuth *OAuth
	// Timeout bounds each request, its answer read; 0: DefaultTimeout.
	Timeout time.Duration
	// RateLimit is in requests a second, those for tokens among them; what a
	// second allows may be sent at once. 0: no limit.
	RateLimit float64
	// TLS is copied. nil: the defaults of crypto/tls.
	TLS *tls.Config
	// Proxy is an http, https or socks5 URL; nil: what the environment says.
	Proxy *url.URL
	// MaxAnswer bounds the bytes of an answer's body, decompressed; 0:
	// DefaultMaxAnswer.
	MaxAnswer int64
	// UserAgent is what the appliance logs; empty: ndrbridge.
	UserAgent string
	// Observe, where set, is called once for each request that was sent, with the
	// answer's status as three digits or else one of the words dns, connect, tls,
	// timeout, canceled and other. It must be safe for concurrent use.
	Observe func(code string)
	// DateDisbelieved, if set, is called for each answer whose Date header contradicts
	// those before it, and is not believed. expected is the appliance's time by these,
	// at the least. It must be safe for concurrent use, and not wait.
	DateDisbelieved func(date, expected time.Time)
	// ClockSet, if set, is called when it becomes known how far the appliance's clock is
	// ahead of the local one (first), and when enough answers agree that it was set since.
	// It must be safe for concurrent use, and not wait.
	ClockSet func(ahead time.Duration, first bool)
	// Now is the local clock, of which differences alone are used; nil: time.Now.
	Now func() time.Time
	// Tracer, where set, makes spans of the requests that are sent within a span.
	Tracer trace.Tracer
	// Transport, where set, sends the requests; TLS and Proxy are not used.
	Transport http.RoundTripper
}

// The defaults of Options.
const (
	DefaultTimeout         = 30 * time.Second
	DefaultMaxAnswer int64 = 16 << 20
)

// Client talks to one appliance. Its methods are safe for concurrent use, each
// call with a Page of its own. They return an *Error, and nothing else.
type Client struct {
	base      url.URL // up to /api/v1
	product   string  // the word in paths
	userAgent string
	maxAnswer int64
	link      *link
	queue     int // of the link's priority limiter
	auth      authority
	budget    *Budget // nil: pages count against none
}

// New returns a client. It does not contact the appliance and reads no secret.
func New(o Options) (*Client, error) {
	base, err := parseBase(o.URL)
	if err != nil {
		return nil, err
	}
	if (o.Key == nil) == (o.OAuth == nil) {
		return nil, errors.New("exactly one of an API key and OAuth must be given")
	}
	c := &Client{
		base:      *base,
		product:   strings.ToLower(o.Product),
		userAgent: o.UserAgent,
		maxAnswer: o.MaxAnswer,
		link:      newLink(o),
	}
	if c.product == "" {
		c.product = "service"
	}
	if c.userAgent == "" {
		c.userAgent = "ndrbridge"
	}
	if c.maxAnswer == 0 {
		c.maxAnswer = DefaultMaxAnswer
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
		// The parser's error repeats the text, which may hold a password.
		return nil, errors.New("the appliance's URL cannot be parsed; write https://host")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the appliance's URL must be http or https with a host, such as https://sensor.example")
	case u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the appliance's URL must be scheme and host alone: %s://%s", u.Scheme, u.Host)
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

// Background returns a client of the same appliance, with the same rate limit
// and credentials, whose requests let those of c go first.
func (c *Client) Background() *Client {
	background := *c
	background.queue = backgroundQueue
	return &background
}

// Close closes the connections that are idle. Calls under way go on.
func (c *Client) Close() { c.link.close() }

// request is what is asked of the appliance.
type request struct {
	method string
	path   string // behind /api/v1
	query  url.Values
	body   []byte // JSON; nil: none
	// repeatable says of a POST that it changes nothing on the appliance.
	repeatable bool
	// stamp, if set, becomes when the answer was given.
	stamp *stamp
	// signedIn, if set, becomes what the request that was answered was signed in with.
	signedIn *credential
	// alone closes the connection behind the answer.
	alone bool
	// notFound is what to do about a 404; empty where it is an answer like others.
	notFound string
	// small says that the answer has no more than maxSmall bytes, whatever
	// Options.MaxAnswer allows.
	small bool
}

// do sends r, a second time where that may help against a refusal, and hands an
// answer with a status of 2xx to read. What read does not consume is thrown
// away.
func (c *Client) do(ctx context.Context, r request, read func(*http.Response) error) error {
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
		e.redact(slices.Concat(cred.secrets, c.link.secrets))
		if !e.Refused() || refusal != nil {
			return e
		}
		c.auth.refused(cred)
		refusal, refused = e, cred
	}
}

// wrap makes an *Error of a failure before r was sent.
func (c *Client) wrap(r request, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Method: r.method, Path: c.base.Path + r.path, Err: err}
}

// maxSmall bounds an answer that says one thing, such as a version.
const maxSmall = 1 << 20

// maxDrain bounds what is read of a body that nobody wants, to keep the
// connection.
const maxDrain = 64 << 10

func (c *Client) send(ctx context.Context, r request, cred credential, read func(*http.Response) error) *Error {
	e := &Error{Method: r.method, Path: c.base.Path + r.path}
	ctx, cancel, err := c.link.turn(ctx, c.queue)
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
		// An empty key is not sent; it lets net/http repeat the request where the
		// appliance had just closed a connection that was kept.
		req.Header["Idempotency-Key"] = []string{}
	}
	clock := c.link.clock
	asked := clock.now()
	resp, err := c.link.http.Do(req)
	if err != nil {
		e.Err = c.link.explain(err)
		return e
	}
	c.link.answers.Store(true)
	resp.Request = req // a transport need not set it
	defer func() {
		io.CopyN(io.Discard, resp.Body, maxDrain)
		resp.Body.Close()
	}()
	if resp.StatusCode/100 != 2 {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxDrain))
		if err != nil { // what came is enough for an excerpt
			secrets := redact.New(slices.Concat(cred.secrets, c.link.secrets)...)
			body = []byte(secrets.HideBeginning(string(body)))
		}
		e.answered(resp, body, r.notFound, c.auth.advice())
		e.RetryAfter = clock.retryAfter(resp.Header, asked)
		return e
	}
	// An answer of another status may be that of a proxy, with a clock of its own.
	given := clock.learn(resp.Header, asked, clock.now())
	if r.stamp != nil {
		*r.stamp = given
	}
	e.Status = resp.StatusCode
	e.RetryAfter = clock.retryAfter(resp.Header, asked)
	switch err := read(resp).(type) {
	case nil:
		return nil
	case *contentError:
		e.Excerpt, e.Err = err.excerpt, err.err
	default:
		e.Err = c.link.explain(err)
	}
	return e
}
