package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
)

// CauseOf returns the cause of a failed request in a few words for people, such as "timed out" or
// "key rejected (401)". It quotes nothing of a peer. It is empty if err is nil.
func CauseOf(err error) string {
	if err == nil {
		return ""
	}
	known, classified := errors.AsType[*Error](err)
	if classified && known.Cause != "" {
		return known.Cause
	}
	if e, ok := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err); ok && e.HTTPStatus() >= 300 {
		return CauseOfStatus(e.HTTPStatus())
	}
	if e := Explain(err, Peer{}); e != nil {
		return e.Cause
	}
	if cause := causeOfNetwork(err); cause != "" {
		return cause
	}
	if !classified {
		return "failed"
	}
	return map[Class]string{
		Halted: "misconfigured or not authorized", Rejected: "event rejected", Throttled: "asked to wait", Transient: "target not available",
	}[known.Class]
}

// CauseOfStatus returns the cause that an HTTP status names.
func CauseOfStatus(status int) string {
	cause := "rejected by receiver"
	switch {
	case status/100 == 3:
		cause = "redirected elsewhere"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		cause = "key rejected"
	case status == http.StatusProxyAuthRequired:
		cause = "rejected by proxy"
	case status == http.StatusNotFound, status == http.StatusGone:
		cause = "address not found"
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		cause = "timed out"
	case status == http.StatusRequestEntityTooLarge:
		cause = "too large for receiver"
	case status == http.StatusTooManyRequests:
		cause = "asked to wait"
	case status/100 == 5:
		cause = "receiver not available"
	}
	return fmt.Sprintf("%s (%d)", cause, status)
}

// causeOfNetwork returns the cause of an error of the system, or "".
func causeOfNetwork(err error) string {
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case is(syscall.ENOSPC, syscall.EDQUOT):
		return "disk full"
	case is(fs.ErrPermission):
		return "permission denied"
	case is(fs.ErrNotExist):
		return "file not found"
	case is(syscall.ECONNREFUSED):
		return "connection refused"
	case is(syscall.EHOSTUNREACH, syscall.ENETUNREACH):
		return "no route to host"
	case is(context.DeadlineExceeded), timeout != nil && timeout.Timeout():
		return "timed out"
	case is(syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	return ""
}
