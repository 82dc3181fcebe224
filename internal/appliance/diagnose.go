package appliance

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"ndrbridge/internal/failure"
)

// The kinds of failures without an answer, which are metric labels.
const (
	kindDNS      = "dns"
	kindConnect  = "connect"
	kindTLS      = "tls"
	kindTimeout  = "timeout"
	kindCanceled = "canceled"
	kindOther    = "other"
)

// diagnose returns the kind of a failure, and advice, which is empty if the error is
// sufficient.
func diagnose(err error) (kind, advice string) {
	if errors.Is(err, context.Canceled) {
		return kindCanceled, ""
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return kindDNS, "check the host in url"
	} else if ok {
		return kindDNS, "check this machine's name servers"
	}
	if advice := diagnoseTLS(err); advice != "" {
		return kindTLS, advice
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return kindTimeout, "check that the appliance can be reached, or raise timeout"
	}
	op, _ := errors.AsType[*net.OpError](err)
	switch {
	case op != nil && op.Op == "proxyconnect":
		return kindConnect, "check proxy"
	case errors.Is(err, syscall.ECONNREFUSED):
		return kindConnect, "nothing listens there: check host and port in url"
	case op != nil && op.Op == "dial":
		return kindConnect, "check the host in url, and the network"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return kindOther, "the answer is incomplete"
	}
	return kindOther, ""
}

// diagnoseTLS returns advice on a TLS failure, and "" for any other error.
func diagnoseTLS(err error) string {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "the appliance does not speak TLS on this port: check scheme and port in url"
	}
	return failure.TLSAdvice(err)
}
