package appliance

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// link is the way to the appliance that all requests of a client share, those
// for tokens among them.
type link struct {
	http    *http.Client
	stile   *priorityLimiter // nil: no rate limit
	timeout time.Duration
	close   func()
	clock   *clock
	answers atomic.Bool // the appliance has answered a request
	secrets []string    // the proxy's password, as it is and in the Basic scheme
}

func newLink(o Options) *link {
	transport := o.Transport
	if transport == nil {
		transport = newTransport(o.TLS, o.Proxy)
	}
	l := &link{
		timeout: o.Timeout,
		clock:   newClock(o),
		close:   (&http.Client{Transport: transport}).CloseIdleConnections,
	}
	if l.timeout == 0 {
		l.timeout = DefaultTimeout
	}
	if o.Proxy != nil {
		if password, ok := o.Proxy.User.Password(); ok {
			basic := base64.StdEncoding.EncodeToString([]byte(o.Proxy.User.Username() + ":" + password))
			l.secrets = []string{password, basic}
		}
	}
	if o.RateLimit > 0 {
		l.stile = &priorityLimiter{limiter: rate.NewLimiter(rate.Limit(o.RateLimit), max(1, int(o.RateLimit)))}
	}
	if o.Tracer != nil {
		transport = &traced{transport, o.Tracer}
	}
	if o.Observe != nil {
		transport = &observed{transport, o.Observe}
	}
	l.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return l
}

// idlePerHost is how many connections are kept: more than a bridge has streams
// of one appliance under way at once.
const idlePerHost = 8

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 256 << 10

func newTransport(config *tls.Config, proxy *url.URL) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = config.Clone()
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	t.MaxIdleConnsPerHost = idlePerHost
	t.MaxResponseHeaderBytes = maxHeader
	// A timeout ends a connection of HTTP/1 and the next request dials again; one
	// of HTTP/2 would be used on after its peer has gone.
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
		switch resp.StatusCode {
		case http.StatusOK:
			return nil
		case http.StatusProxyAuthRequired:
			return errors.New(isProxyAuthRequired)
		}
		return fmt.Errorf("the proxy refused to connect: %s", brief(resp.Status))
	}
	return t
}

// turn waits until a request may be sent. The context returned bounds that
// request; the wait does not count.
func (l *link) turn(ctx context.Context, line int) (context.Context, context.CancelFunc, error) {
	if l.stile != nil {
		if err := l.stile.wait(ctx, line); err != nil {
			return nil, nil, fmt.Errorf("wait for the rate limit: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	return ctx, cancel, nil
}

// explain says what to do about a request that failed.
func (l *link) explain(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // Error has method and path
	}
	if errors.Is(err, ErrNoMemory) { // the appliance did answer
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no complete answer within %s: %w", l.timeout, err)
	}
	if _, advice := diagnose(err); advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

// observed counts the requests that go through a transport.
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
