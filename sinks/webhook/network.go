package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"ndrbridge/sinks"
)

// notAnswered makes the error of a request that got no answer. Its chain holds
// no error of net/http or the network, whose texts may tell secrets: of them a
// redacted text is left.
func (s *Sink) notAnswered(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == errNoAnswer:
		return sinks.Errorf(sinks.Transient, "%s: no answer within %v", s.target, s.timeout)
	case cause != nil:
		return fmt.Errorf("%s: %w", s.target, ctx.Err())
	}
	text := s.secrets.hide(err.Error())
	if refusal, ok := errors.AsType[*proxyRefusal](err); ok {
		return sinks.Errorf(refusal.class(), "%s: %s", s.target, text)
	}
	if advice := tlsAdvice(err); advice != "" {
		return sinks.Errorf(sinks.Halted, "%s: %s (%s)", s.target, text, advice)
	}
	// Refused, reset, cut off, a name that does not resolve: all of it passes.
	return sinks.Errorf(sinks.Transient, "%s: %s", s.target, text)
}

// proxyRefusal is a proxy's answer to CONNECT.
type proxyRefusal struct{ status int }

// proxyAnswered is http.Transport.OnProxyConnectResponse.
func proxyAnswered(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyRefusal{answer.StatusCode}
}

func (e *proxyRefusal) Error() string {
	return "the proxy answered " + statusText(e.status)
}

// class is never Rejected: a proxy has not seen the event.
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

// tlsAdvice says what to do about a TLS handshake that failed for what either
// side is configured to; empty: err is no such failure.
func tlsAdvice(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "set tls.ca_file to the certificate of the authority that signed it"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "set tls.server_name to a name in the server's certificate"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "the server's certificate must be renewed, or this machine's clock is wrong"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "see tls.ca_file and tls.server_name"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not speak TLS: is url to begin with http://?"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return "the server refused the handshake: does it want a certificate, tls.cert_file?"
	}
	// The rest of what a handshake can fail with has no types, only texts.
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		switch text := inner.Error(); {
		case strings.HasPrefix(text, "tls: "):
			return "see tls"
		case text == "http2: client conn could not be established":
			return "the server hung up right after the handshake: does it want a certificate, tls.cert_file?"
		}
	}
	return ""
}
