package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/linklocal"
)

// notAnswered returns the error of a request that got no answer. It wraps no error of
// net/http or the network, because their texts may contain secrets; it keeps a redacted
// text of them.
func (s *Sink) notAnswered(ctx context.Context, err error) error {
	if token, ok := errors.AsType[*tokenError](err); ok {
		return token.error
	}
	return s.unanswered(ctx, s.target, err)
}

// unanswered is notAnswered for a request to target, which is its method, scheme and host.
func (s *Sink) unanswered(ctx context.Context, target string, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == errNoAnswer:
		return &failure.Error{Scope: failure.ScopeTarget, Class: failure.Transient, Cause: "timed out", Err: fmt.Errorf("%s: no answer within %v", target, s.o.Timeout)}
	case cause != nil:
		return fmt.Errorf("%s: %w", target, ctx.Err())
	}
	text := s.excerpt(err.Error())
	failed := failure.Unavailable(failure.ScopeTarget, "%s: %s", target, text)
	failed.Cause = failure.CauseOf(err)
	if refusal, ok := errors.AsType[*proxyRefusal](err); ok {
		failed.Class, failed.Cause = refusal.class(), failure.CauseOfStatus(refusal.status)
		return failed
	}
	if _, ok := errors.AsType[*linkLocalError](err); ok {
		return failure.Errorf(failure.Halted, "%s: %s", target, text)
	}
	if advice := failure.TLSAdvice(err); advice != "" {
		halted := failure.Errorf(failure.Halted, "%s: %s (%s)", target, text, advice)
		halted.Cause = failed.Cause
		return halted
	}
	// Refused, reset, closed, a name that does not resolve: all are temporary.
	return failed
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
func (e *proxyRefusal) class() failure.Class {
	switch class := classOf(e.status); class {
	case failure.Rejected:
		return failure.Halted
	case failure.Throttled:
		return failure.Transient
	default:
		return class
	}
}

// newDialer returns a dialer that connects to link-local and metadata addresses only if
// allowed. Otherwise a host name that resolves to one, by mistake or by its owner's
// intent, would send events to, and show answers from, the service that holds the
// machine's credentials.
func newDialer(allowLinkLocal bool) *net.Dialer {
	if allowLinkLocal {
		return &net.Dialer{}
	}
	return &net.Dialer{Control: refuseLinkLocal}
}

func refuseLinkLocal(network, address string, c syscall.RawConn) error {
	err := linklocal.Refuse(network, address, c)
	if refused, ok := errors.AsType[*linklocal.Error](err); ok {
		return &linkLocalError{refused.Address}
	}
	return err
}

// linkLocalError reports an address that is not connected to.
type linkLocalError struct{ address netip.Addr }

func (e *linkLocalError) Error() string {
	return fmt.Sprintf("%s is a link-local or metadata address, which is not connected to unless allow_link_local is true", e.address)
}

// Advice returns what the user can do.
func (e *linkLocalError) Advice() string {
	return "correct url; set allow_link_local only for an address that you know"
}
