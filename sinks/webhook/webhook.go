// Package webhook delivers events by HTTP requests, as the CloudEvents HTTP
// binding 1.0.2 says: structured (section 3.2), binary (section 3.1) or batched
// (section 3.3).
package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ndrbridge/redact"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Sink sends events to one URL.
//
// In structured and binary mode every event is a request of its own, sent when
// the one before it has been answered. Events before a failed one are
// acknowledged: the error is a sinks.EventErrors, in which those behind it have
// sinks.ErrNotTried. In batch mode all the events are one request, and a failure
// concerns them all.
//
// An answer of 2xx acknowledges. Redirects are not followed: a request that
// carries events and credentials goes to the configured URL alone.
type Sink struct {
	transport *http.Transport
	template  *http.Request // never written to after New
	mode      transform.Mode
	timeout   time.Duration
	target    string // method, scheme and host, for errors
	secrets   redact.Secrets
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
	proxy := o.Proxy
	if proxy == nil {
		if proxy, err = http.ProxyFromEnvironment(template); err != nil {
			return nil, errors.New("webhook: the environment's proxy is no URL")
		}
	}
	transport := &http.Transport{
		TLSClientConfig:        o.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		OnProxyConnectResponse: proxyAnswered,
		MaxIdleConnsPerHost:    1, // there is one request at a time
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true, // of answers: little of them is read
		MaxResponseHeaderBytes: 64 << 10,
		WriteBufferSize:        16 << 10, // most events leave in one write
	}
	if proxy != nil {
		transport.Proxy = http.ProxyURL(proxy)
	}
	return &Sink{
		transport: transport,
		template:  template,
		mode:      o.Mode,
		timeout:   o.Timeout,
		target:    template.Method + " to " + template.URL.Scheme + "://" + template.URL.Host,
		secrets:   secretsOf(o, proxy),
	}, nil
}

// Send delivers the events as sinks.Sink says.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	line := newLine(ctx, s.timeout)
	defer line.hangUp()
	if s.mode == transform.Batch {
		return s.post(line, s.template.Header, encodeBatch(events))
	}
	for i, e := range events {
		header, body := s.template.Header, e.Structured()
		if s.mode == transform.Binary {
			header, body = binaryHeader(header, e), e.Data()
		}
		// An http.RoundTripper may read a body after it returned, when the events'
		// bytes are no longer ours: each request has a copy.
		if err := s.post(line, header, append([]byte(nil), body...)); err != nil {
			return stoppedAt(i, err, len(events))
		}
	}
	return nil
}

// stoppedAt is the error of a Send that acknowledged the events before i.
func stoppedAt(i int, err error, events int) sinks.EventErrors {
	failed := make(sinks.EventErrors, events)
	failed[i] = err
	for i++; i < events; i++ {
		failed[i] = sinks.ErrNotTried
	}
	return failed
}

// Close closes the idle connections.
func (s *Sink) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}
