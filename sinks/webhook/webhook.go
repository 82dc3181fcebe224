// Package webhook delivers events by HTTP requests, as the CloudEvents HTTP
// binding 1.0.2 says: structured (section 3.2), binary (section 3.1) or batched
// (section 3.3). A Preset speaks the protocol of a service of its own instead, and a
// template makes bodies of a form of their own.
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
// In structured and binary mode, and with a template, every event is a request of
// its own. Up to Options.Concurrency requests are in flight, never two of one
// PartitionKey, and the error is a sinks.EventErrors: what has no error was
// acknowledged, and what comes behind a failed event of its key is sinks.ErrNotTried.
// A failure that is not the event's own ends the Send when the requests in flight have
// ended: one that halts or throttles is the error of every event that was not tried.
//
// In batch mode the events are one request, or several where they are many: see
// cut. A failure of one request concerns all of its events.
//
// With a preset it says what the requests are, and what acknowledges: see Preset.
// They follow one another, but that the events of a large batch are divided among
// Options.Concurrency of them, by PartitionKey, unless the service says otherwise.
//
// An answer of 2xx acknowledges, where a preset says nothing else. Redirects are not
// followed: a request that carries events and credentials goes to the configured URL
// alone.
type Sink struct {
	transport   *http.Transport
	template    *http.Request // never written to after New, nor are the headers
	header      http.Header
	gzip        bool
	zippers     zippers
	mode        transform.Mode
	render      *render.Template // nil: CloudEvents, as mode says, or preset
	preset      Preset           // nil: CloudEvents, as mode says, or render
	remembering Remembering      // is preset; nil: it remembers nothing
	memory      *Memory          // of remembering
	keys        []signature.Key  // none: requests are not signed
	handshake   *Handshake       // nil: none
	agreed      bool             // the handshake was done
	limiter     *rate.Limiter    // of requests; nil: any
	maxBody     int
	concurrency int
	timeout     time.Duration
	target      string // method, scheme and host, for errors
	secrets     redact.Secrets
}

var _ sinks.Sink = (*Sink)(nil)

// New makes a sink. It contacts nobody. The error tells the option that is
// wrong, without the value of one that may be secret.
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
			return nil, errors.New("webhook: the environment's proxy is no URL")
		}
	}
	transport := &http.Transport{
		DialContext:            newDialer(o.AllowLinkLocal).DialContext,
		TLSClientConfig:        o.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		OnProxyConnectResponse: proxyAnswered,
		MaxIdleConnsPerHost:    o.Concurrency,
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true, // of answers: little of them is read
		MaxResponseHeaderBytes: 64 << 10,
		WriteBufferSize:        16 << 10, // most events leave in one write
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
		if remembering, ok := o.Preset.(Remembering); ok && o.Memory != nil {
			s.remembering, s.memory = remembering, o.Memory
		}
		if service.Undivided {
			s.concurrency = 1
		}
	}
	return s, nil
}

// Send delivers the events as sinks.Sink says.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	if err := s.agree(ctx); err != nil {
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

// sendEach sends every event in a request of its own.
func (s *Sink) sendEach(ctx context.Context, events []transform.Event) error {
	inFlight := min(s.concurrency, len(events))
	q := newQueue(events, inFlight)
	post := func() {
		line := newConnection(ctx, s.timeout)
		defer line.hangUp()
		i, ok := q.take()
		for ok {
			if failure := s.postOne(line, events[i]); failure != nil {
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

// sendBatches sends the events in requests of many, those of different keys in
// several requests at once where they are many.
func (s *Sink) sendBatches(ctx context.Context, events []transform.Event) error {
	return s.inParts(events, func(p part) *failure {
		if err := s.sendBatch(ctx, p.events); err != nil {
			return &failure{err: err}
		}
		return nil
	})
}

// sendBatch sends the events in one request after the other, as few as carry them
// all within the size that a body may have.
func (s *Sink) sendBatch(ctx context.Context, events []transform.Event) error {
	line := newConnection(ctx, s.timeout)
	defer line.hangUp()
	var t results
	for left := events; len(left) > 0; {
		n, size := leading(left, s.maxBody)
		if n == 0 {
			t.add(1, sinks.EventErrors{s.unfit(s.tooLarge(size))})
			left = left[1:]
			continue
		}
		var err error
		if f := s.post(line, s.header, left[:n], encodeBatch(left[:n])); f != nil {
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

// leading is how many of the leading events fit into a batch of most bytes, and the
// size of a batch with the first that does not.
func leading(events []transform.Event, most int) (n, size int) {
	size = len("[]")
	for i, e := range events {
		if i > 0 {
			size++ // the comma
		}
		if size += len(e.Structured()); size > most {
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
