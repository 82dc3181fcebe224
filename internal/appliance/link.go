package appliance

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/lease"
	"ndrbridge/internal/redact"
)

// link is the HTTP client with its rate limiter and clock, shared by all requests to
// one appliance, those for tokens included.
type link struct {
	http    *http.Client
	limiter *priorityLimiter // nil if there is no rate limit
	quarter *rate.Limiter    // of requests aside; nil if there is no rate limit
	timeout time.Duration
	close   func()
	clock   *clock
	answers atomic.Bool // set once the appliance has answered
	tls     *tls.Config
	proxy   *url.URL // nil if there is none, or that of the environment
	words   []string // the proxy's password, plain and in Basic credentials
}

func newLink(o Options) *link {
	transport := o.Transport
	if transport == nil {
		transport = newTransport(o.TLS, o.Proxy, o.Lease)
	}
	l := &link{
		timeout: cmp.Or(o.Timeout, defaultTimeout),
		tls:     cmp.Or(o.TLS.Clone(), &tls.Config{}),
		proxy:   o.Proxy,
		clock:   newClock(o),
		close:   (&http.Client{Transport: transport}).CloseIdleConnections,
	}
	if o.Proxy != nil {
		if password, ok := o.Proxy.User.Password(); ok {
			basic := base64.StdEncoding.EncodeToString([]byte(o.Proxy.User.Username() + ":" + password))
			l.words = []string{password, basic}
		}
	}
	if o.RateLimit > 0 {
		l.limiter = newPriorityLimiter(o.RateLimit)
		l.quarter = rate.NewLimiter(rate.Limit(o.RateLimit/4), max(1, int(o.RateLimit/4)))
	}
	transport = unswitched{transport}
	if o.Observe != nil {
		transport = &observed{transport, o.Observe}
	}
	l.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return l
}

// idlePerHost is the number of idle connections that are kept: more than the concurrent
// streams of one appliance.
const idlePerHost = 8

// maxHeader limits the header of an answer, in bytes.
const maxHeader = 256 << 10

func newTransport(config *tls.Config, proxy *url.URL, l *lease.Lease) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = l.DialContext(t.DialContext)
	t.TLSClientConfig = config.Clone()
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	t.MaxIdleConnsPerHost = idlePerHost
	t.MaxResponseHeaderBytes = maxHeader
	// After a timeout an HTTP/1 connection is closed and the next request dials again;
	// an HTTP/2 connection would be reused although its peer is gone.
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
		switch resp.StatusCode {
		case http.StatusOK:
			return nil
		case http.StatusProxyAuthRequired:
			return errors.New(proxyAuthAdvice)
		}
		return fmt.Errorf("the proxy refused the connection: %s", printable(resp.Status))
	}
	return t
}

// secrets returns the words and the proxy's password.
func (l *link) secrets(words ...string) redact.Secrets {
	return redact.New(slices.Concat(words, l.words)...)
}

// admit waits until a request may be sent. The returned context bounds the request; the
// wait does not count.
func (l *link) admit(ctx context.Context, background bool) (context.Context, context.CancelFunc, error) {
	if l.limiter != nil {
		if err := l.limiter.wait(ctx, background); err != nil {
			return nil, nil, fmt.Errorf("wait for the rate limit: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	return ctx, cancel, nil
}

// explain removes secrets from the error of a failed request to the URL that a key of the
// configuration holds, and adds advice.
func (l *link) explain(err error, key string, to *url.URL, secrets redact.Secrets) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // Error has method and path
	}
	err = secrets.HideError(err)
	if errors.Is(err, ErrNoMemory) { // the appliance did answer
		return err
	}
	p := failure.Peer{Address: finding.HostPort(to), Key: key, TLS: l.tls, Hide: secrets.Hide}
	if l.proxy != nil {
		p.Proxy = finding.HostPort(l.proxy)
	}
	if e := failure.Explain(err, p); e != nil && !errors.Is(err, context.Canceled) {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no complete answer within %s: %w", l.timeout, err)
	}
	if _, advice := diagnose(err); advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

// unswitched is a transport whose answers of status 101 have no body: it would be the
// connection, and reading that does not end with the request.
type unswitched struct{ http.RoundTripper }

func (u unswitched) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := u.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	return resp, err
}

// observed is a transport that reports the result of each request.
type observed struct {
	http.RoundTripper
	observe func(code string)
}

func (o *observed) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.RoundTripper.RoundTrip(r)
	if err != nil {
		kind, _ := diagnose(err)
		o.observe(kind)
		return nil, err
	}
	o.observe(strconv.Itoa(resp.StatusCode))
	return resp, nil
}
