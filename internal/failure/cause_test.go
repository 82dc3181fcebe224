package failure_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"ndrbridge/internal/failure"
	"ndrbridge/test/assert"
)

func TestCausesAreAFewWords(t *testing.T) {
	for want, err := range map[string]error{
		"":                                nil,
		"failed":                          errors.New("x"),
		"connection refused":              fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}),
		"timed out":                       failure.Unavailable(failure.ScopeTarget, "soc: %w", context.DeadlineExceeded),
		"host name not found":             &net.DNSError{IsNotFound: true},
		"certificate not trusted":         failure.Advise(failure.Halted, "set tls.ca_file", x509.UnknownAuthorityError{}),
		"certificate names another host":  x509.HostnameError{Certificate: new(x509.Certificate)},
		"disk full":                       failure.Unavailable(failure.ScopeTarget, "file: %w", &os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}),
		"key rejected (401)":              &failure.Error{Class: failure.Halted, Cause: failure.CauseOfStatus(401), Err: errors.New("401")},
		"misconfigured or not authorized": failure.Errorf(failure.Halted, "no such stream"),
		"target not available":            failure.Errorf(failure.Transient, "no leader"),
	} {
		t.Run(want, func(t *testing.T) { assert.Equal(t, failure.CauseOf(err), want) })
	}
}

func TestStatusesHaveCauses(t *testing.T) {
	for status, want := range map[int]string{
		302: "redirected elsewhere (302)", 403: "key rejected (403)", 404: "address not found (404)", 413: "too large for receiver (413)",
		422: "rejected by receiver (422)", 429: "asked to wait (429)", 503: "receiver not available (503)", 504: "timed out (504)",
	} {
		t.Run(want, func(t *testing.T) { assert.Equal(t, failure.CauseOfStatus(status), want) })
	}
}
