package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/linklocal"
	"ndrbridge/internal/redact"
)

// notAnswered returns the error of a request that got no answer. Its text has none of
// net/http or the network, which may contain secrets, but an explanation or a redacted text.
func (s *Sink) notAnswered(ctx context.Context, err error) error {
	if token, ok := errors.AsType[*tokenError](err); ok {
		return token.error
	}
	return s.unanswered(ctx, s.target, s.peer(), err)
}

// peer returns the target, as failure.Explain describes it.
func (s *Sink) peer() failure.Peer {
	return peerOf("url", s.request.URL, s.o.Proxy, s.o.TLS, s.hidden())
}

// peerOf returns the server of a URL, which a key holds.
func peerOf(key string, target, proxy *url.URL, config *tls.Config, hidden redact.Secrets) failure.Peer {
	p := failure.Peer{Address: finding.HostPort(target), Key: key, TLS: cmp.Or(config, &tls.Config{}), Hide: hidden.Hide}
	if proxy != nil {
		p.Proxy = finding.HostPort(proxy)
	}
	return p
}

// unanswered is notAnswered for a request to target, which is its method, scheme and host, at p.
func (s *Sink) unanswered(ctx context.Context, target string, p failure.Peer, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == errNoAnswer:
		return &failure.Error{Scope: failure.ScopeTarget, Class: failure.Transient, Cause: "timed out", Err: fmt.Errorf("%s: no answer within %v", target, s.o.Timeout)}
	case cause != nil:
		return fmt.Errorf("%s: %w", target, ctx.Err())
	}
	if e := failure.Explain(err, p); e != nil {
		failed := e.Classified(target)
		if _, ok := errors.AsType[*linkLocalError](err); ok {
			failed.Class = failure.Halted
		}
		return failed
	}
	failed := failure.Unavailable(failure.ScopeTarget, "%s: %s", target, s.excerpt(err.Error()))
	failed.Cause = failure.CauseOf(err)
	if refusal, ok := errors.AsType[*proxyRefusal](err); ok {
		failed.Class, failed.Cause = refusal.class(), failure.CauseOfStatus(refusal.status)
	}
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
