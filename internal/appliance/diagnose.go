package appliance

import (
	"context"
	"errors"
	"io"
	"net"
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
// sufficient or failure.Explain explains it.
func diagnose(err error) (kind, advice string) {
	if errors.Is(err, context.Canceled) {
		return kindCanceled, ""
	}
	e := failure.Explain(err, failure.Peer{})
	switch {
	case e != nil && e.Step == failure.StepAddress:
		return kindDNS, ""
	case e != nil && e.Step == failure.StepTLS:
		return kindTLS, ""
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return kindTimeout, "check that the appliance can be reached, or raise timeout"
	}
	op, _ := errors.AsType[*net.OpError](err)
	switch {
	case e != nil:
		return kindConnect, ""
	case op != nil && op.Op == "proxyconnect":
		return kindConnect, "check proxy"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return kindOther, "the answer is incomplete"
	}
	return kindOther, ""
}
