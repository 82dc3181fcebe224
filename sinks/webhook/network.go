package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"ndrbridge/sinks"
)

// notAnswered returns the error of a request that got no answer. It wraps no error of
// net/http or the network, because their texts may contain secrets; it keeps a redacted
// text of them.
func (s *Sink) notAnswered(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == errNoAnswer:
		return sinks.Errorf(sinks.Transient, "%s: no answer within %v", s.target, s.timeout)
	case cause != nil:
		return fmt.Errorf("%s: %w", s.target, ctx.Err())
	}
	text := excerpt(strings.NewReader(err.Error()), s.secrets)
	if refusal, ok := errors.AsType[*proxyRefusal](err); ok {
		return sinks.Errorf(refusal.class(), "%s: %s", s.target, text)
	}
	if _, ok := errors.AsType[*linkLocalError](err); ok {
		return sinks.Errorf(sinks.Halted, "%s: %s", s.target, text)
	}
	if advice := sinks.TLSAdvice(err); advice != "" {
		return sinks.Errorf(sinks.Halted, "%s: %s (%s)", s.target, text, advice)
	}
	// Refused, reset, closed, a name that does not resolve: all are temporary.
	return sinks.Errorf(sinks.Transient, "%s: %s", s.target, text)
}

// proxyRefusal is a proxy's refusal of a CONNECT request.
type proxyRefusal struct{ status int }

// proxyAnswered implements http.Transport.OnProxyConnectResponse.
func proxyAnswered(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyRefusal{answer.StatusCode}
}

func (e *proxyRefusal) Error() string {
	return "the proxy answered " + statusText(e.status)
}

// class returns the error class of the refusal. It is never Rejected, since a proxy has
// not seen the event.
func (e *proxyRefusal) class() sinks.Class {
	switch class := classOf(e.status); class {
	case sinks.Rejected:
		return sinks.Halted
	case sinks.Throttled:
		return sinks.Transient
	default:
		return class
	}
}
