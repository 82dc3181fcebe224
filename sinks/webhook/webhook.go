// Package webhook delivers events by HTTP requests, as defined by the CloudEvents
// HTTP binding 1.0.2: structured (section 3.2), binary (section 3.1) or batched
// (section 3.3). A Preset speaks the protocol of another service instead, and a
// template renders custom bodies.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ndrbridge/internal/redact"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook/render"
	"ndrbridge/sinks/webhook/signature"
	"ndrbridge/transform"
)

// Sink sends events to one URL.
//
// In structured and binary mode, and with a template, every event has its own request.
// Up to Options.Concurrency requests are in flight, never two with the same
// PartitionKey, and the error is a sinks.EventErrors: a nil element means acknowledged,
// and the events behind a failed one of their key are sinks.ErrNotTried. A failure that
// is not specific to an event ends Send when the requests in flight have ended; one
// that halts or throttles is the error of every event that was not tried.
//
// In batch mode the events are sent in one request, or split into several if they are
// large: see split. The failure of a request applies to all of its events.
//
// With a Preset, the preset composes the requests and decides what acknowledges them.
// They are sent one after another, except that a large batch is split by PartitionKey
// among Options.Concurrency of them, unless Service.Undivided is set.
//
// Unless a preset decides otherwise, an answer of 2xx acknowledges. Redirects are not
// followed: requests carry events and credentials, and go to the configured URL only.
type Sink struct {
	transport     *http.Transport
	template      *http.Request // read-only after New, headers included
	header        http.Header
	gzip          bool
	gzipPool      gzipPool
	mode          transform.Mode
	render        *render.Template // nil if mode or preset applies
	preset        Preset           // nil if mode or render applies
	stateful      StatefulPreset   // preset, or nil if it remembers nothing
	memory        *Memory          // for stateful
	keys          []signature.Key  // empty if requests are not signed
	handshake     *Handshake       // nil if disabled
	handshakeDone bool
	limiter       *rate.Limiter // of requests; nil if unlimited
	maxBody       int
	concurrency   int
	timeout       time.Duration
	target        string // method, scheme and host, for errors
	secrets       redact.Secrets
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a sink without contacting the target. Its errors name the faulty option,
// without values that may be secret.
func New(o Options) (*Sink, error) {
	template, err := o.template()
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("webhook: timeout %v is negative", o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	o.Concurrency = max(1, o.Concurrency)
	if o.MaxBodyBytes == 0 {
		o.MaxBodyBytes = defaultMaxBody
	}
	keys, err := parseKeys(o.SignSecrets)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	proxy := o.Proxy
	if proxy == nil {
		if proxy, err = http.ProxyFromEnvironment(template); err != nil {
			return nil, errors.New("webhook: the proxy in the environment is not a URL")
		}
	}
	transport := &http.Transport{
		DialContext:            newDialer(o.AllowLinkLocal).DialContext,
		TLSClientConfig:        o.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		OnProxyConnectResponse: proxyAnswered,
		MaxIdleConnsPerHost:    o.Concurrency,
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true, // of answers: most of their bodies are not read
		MaxResponseHeaderBytes: 64 << 10,
		WriteBufferSize:        16 << 10, // most events are sent in one write
	}
	if proxy != nil {
		transport.Proxy = http.ProxyURL(proxy)
	}
	s := &Sink{
		transport:   transport,
		template:    template,
		header:      template.Header,
		gzip:        o.Gzip,
		mode:        o.Mode,
		render:      o.Template,
		preset:      o.Preset,
		keys:        keys,
		handshake:   o.Handshake,
		maxBody:     o.MaxBodyBytes,
		concurrency: o.Concurrency,
		timeout:     o.Timeout,
		target:      template.Method + " to " + template.URL.Scheme + "://" + template.URL.Host,
		secrets:     secretsOf(o, proxy),
	}
	if o.Preset != nil {
		service := o.Preset.Service()
		if r := service.RequestsPerSecond; r > 0 {
			s.limiter = rate.NewLimiter(rate.Limit(r), 1)
		}
		if stateful, ok := o.Preset.(StatefulPreset); ok && o.Memory != nil {
			s.stateful, s.memory = stateful, o.Memory
		}
		if service.Undivided {
			s.concurrency = 1
		}
	}
	return s, nil
}

// Send implements sinks.Sink.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	if err := s.ensureHandshake(ctx); err != nil {
		return err
	}
	switch {
	case s.preset != nil:
		return s.sendPreset(ctx, events)
	case s.mode == transform.Batch:
		return s.sendBatches(ctx, events)
	}
	return s.sendEach(ctx, events)
}

// sendEach sends every event in its own request.
func (s *Sink) sendEach(ctx context.Context, events []transform.Event) error {
	inFlight := min(s.concurrency, len(events))
	q := newQueue(events, inFlight)
	post := func() {
		d := newDeadline(ctx, s.timeout)
		defer d.stop()
		i, ok := q.take()
		for ok {
			if failure := s.postOne(d, events[i]); failure != nil {
				i, ok = q.failed(i, failure)
			} else {
				i, ok = q.acknowledged(i)
			}
		}
	}
	var others sync.WaitGroup
	for range inFlight - 1 {
		others.Go(post)
	}
	post()
	others.Wait()
	return q.result()
}

// sendBatches sends the events in batch mode. A large batch is split by key into
// requests that are sent concurrently.
func (s *Sink) sendBatches(ctx context.Context, events []transform.Event) error {
	return s.sendParts(events, func(p part) *failure {
		if err := s.sendBatch(ctx, p.events); err != nil {
			return &failure{err: err}
		}
		return nil
	})
}

// sendBatch sends the events one request after another, as few as the maximum body size
// permits.
func (s *Sink) sendBatch(ctx context.Context, events []transform.Event) error {
	d := newDeadline(ctx, s.timeout)
	defer d.stop()
	var t results
	for left := events; len(left) > 0; {
		n, size := leading(left, s.maxBody)
		if n == 0 {
			t.add(1, sinks.EventErrors{s.unsendable(s.tooLarge(size))})
			left = left[1:]
			continue
		}
		var err error
		if f := s.post(d, s.header, left[:n], encodeBatch(left[:n])); f != nil {
			err = f.err
		}
		left = left[n:]
		if !t.add(n, err) {
			t.stop(len(left), err)
			break
		}
	}
	return t.result()
}

// leading returns how many of the leading events fit into a batch of maxBytes, and the
// size of a batch that includes the first one that does not.
func leading(events []transform.Event, maxBytes int) (n, size int) {
	size = len("[]")
	for i, e := range events {
		if i > 0 {
			size++ // the comma
		}
		if size += len(e.Structured()); size > maxBytes {
			return i, size
		}
	}
	return len(events), size
}

// Close closes the idle connections.
func (s *Sink) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}
