// Package webhook delivers events by HTTP requests, as defined by the CloudEvents
// HTTP binding 1.0.2: structured (section 3.2), binary (section 3.1) or batched
// (section 3.3). Events with a document in another format are sent as these documents. A
// Preset speaks the protocol of another service instead, and a template renders custom
// bodies.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Sink sends events to one URL.
//
// In structured and binary mode, and with a template, every event has its own request.
// Up to Options.Concurrency requests are in flight, never two with the same
// PartitionKey, and fewer while the target is overloaded: see window. The error of several
// events is a failure.EventErrors: a nil element means acknowledged, and the events behind a failed one
// of their key are failure.ErrNotTried. A failure that is not specific to an event ends Send
// when the requests in flight have ended; one that halts or throttles is the error of
// every event that was not tried.
//
// In batch mode, and with a Preset, which composes the requests and decides what acknowledges
// them, requests are sent one after another, except that a large batch is split by PartitionKey
// among Options.Concurrency of them, unless Preset.Undivided is set: see split. The failure of a
// request applies to all of its events.
//
// Unless a preset or Options.Expect decides otherwise, an answer of 2xx acknowledges that is
// not an HTML page. Redirects are not followed: requests carry events and credentials, and go to the configured URL only.
type Sink struct {
	o         Options // with defaults in place of zero values
	preset    *Preset // that of the options, or plain
	transport *http.Transport
	request   *http.Request // copied by each request; read-only after New, headers included
	gzipPool  gzipPool
	keys      []SignKey     // empty if requests are not signed
	limiter   *rate.Limiter // of the preset's requests; nil if unlimited
	window    window        // used by one Send at a time
	target    string        // method, scheme and host, for errors
	secrets   *secrets
	tokens    *tokens // nil without OAuth
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a sink without contacting the target. Its errors name the faulty option,
// without values that may be secret.
func New(o Options) (*Sink, error) {
	request, err := o.request()
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	keys, err := parseKeys(o.SignSecrets)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	tokenProxy := o.Proxy
	if o.Proxy == nil {
		if o.Proxy, err = proxyOf(request.URL); err == nil && o.OAuth != nil {
			tokenProxy, err = proxyOf(o.OAuth.Endpoint())
		}
		if err != nil {
			return nil, fmt.Errorf("webhook: %w", err)
		}
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, defaultMaxBody)
	o.Concurrency = max(1, o.Concurrency)
	if o.Preset != nil && o.Preset.Undivided {
		o.Concurrency = 1
	}
	s := &Sink{
		o:       o,
		window:  newWindow(o.Concurrency),
		secrets: newSecrets(o, o.Proxy, tokenProxy),
		transport: &http.Transport{
			DialContext:            o.Lease.DialContext(newDialer(o.AllowLinkLocal).DialContext),
			TLSClientConfig:        o.TLS.Clone(),
			ForceAttemptHTTP2:      true,
			OnProxyConnectResponse: proxyAnswered,
			MaxIdleConnsPerHost:    o.Concurrency,
			MaxConnsPerHost:        o.Concurrency, // wait for a connection whose answer is just being read, do not open another
			IdleConnTimeout:        90 * time.Second,
			DisableCompression:     true, // of answers: most of their bodies are not read
			MaxResponseHeaderBytes: 64 << 10,
			WriteBufferSize:        16 << 10, // most events are sent in one write
		},
		request: request,
		keys:    keys,
		target:  request.Method + " to " + request.URL.Scheme + "://" + request.URL.Host,
	}
	s.transport.Proxy = http.ProxyURL(o.Proxy)
	if o.OAuth != nil {
		s.tokens = newTokens(s, *o.OAuth, tokenProxy)
	}
	s.preset = cmp.Or(o.Preset, &Preset{Compose: s.composePlain})
	if r := s.preset.RequestsPerSecond; r > 0 {
		s.limiter = rate.NewLimiter(rate.Limit(r), 1)
	}
	return s, nil
}

// composePlain is the Compose of a sink without a Preset.
func (s *Sink) composePlain(events []transform.Event) (Request, error) {
	r, err := s.o.Compose(events)
	if err == nil && s.o.Mode == transform.Binary {
		r.header, err = withAttributes(s.request.Header, events[0].Headers())
	}
	if err != nil {
		return Request{}, s.notSent(err)
	}
	return r, nil
}

// proxyOf returns the proxy of the environment for a URL, or nil if there is none.
func proxyOf(target *url.URL) (*url.URL, error) {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if err != nil {
		return nil, errors.New("the proxy in the environment is not a URL")
	}
	return proxy, nil
}

// Send implements sinks.Sink.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	if s.o.Preset != nil || s.o.Mode == transform.Batch {
		return s.sendParts(ctx, events)
	}
	return s.sendEach(ctx, events)
}

// sendEach sends every event in its own request.
func (s *Sink) sendEach(ctx context.Context, events []transform.Event) error {
	q := newQueue(events, &s.window)
	var workers sync.WaitGroup
	var work func()
	work = func() {
		for i, more, ok := q.take(); ok; i, more, ok = q.take() {
			if more {
				workers.Go(work)
			}
			_, err := s.sendLeading(ctx, events[i:i+1])
			q.done(i, err)
		}
	}
	work()
	workers.Wait()
	return q.result()
}

// Poll lets the preset read from the service once, and returns how long to wait before the next
// call. The options must have a Memory and a Preset with Poll. Poll must not be called concurrently
// with Send.
func (s *Sink) Poll(ctx context.Context) (wait time.Duration, err error) {
	c := Conversation{sink: s}
	wait, err = s.preset.Poll(ctx, &c)
	if err != nil && err != c.failed {
		err = s.report(err)
	}
	return wait, err
}

// Close closes the idle connections.
func (s *Sink) Close() error {
	s.transport.CloseIdleConnections()
	if s.tokens != nil {
		s.tokens.transport.CloseIdleConnections()
	}
	return nil
}
