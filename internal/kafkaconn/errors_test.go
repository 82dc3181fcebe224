package kafkaconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"

	"ndrbridge/internal/failure"
	"ndrbridge/test/assert"
)

// codes holds the error codes that are not transient, with the names of another client.
var codes = []struct {
	what  string
	class failure.Class
	errs  []*kerr.Error
}{
	{"the event is at fault", failure.Rejected, []*kerr.Error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidTimestamp, kerr.InvalidRecord,
	}},
	{"the broker asks for a wait", failure.Throttled, []*kerr.Error{kerr.ThrottlingQuotaExceeded}},
	{"not allowed", failure.Halted, []*kerr.Error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
		kerr.PolicyViolation,
	}},
	{"the credentials are rejected", failure.Halted, []*kerr.Error{
		kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.SecurityDisabled,
		kerr.DelegationTokenAuthDisabled, kerr.DelegationTokenNotFound, kerr.DelegationTokenOwnerMismatch,
		kerr.DelegationTokenRequestNotAllowed, kerr.DelegationTokenAuthorizationFailed, kerr.DelegationTokenExpired,
	}},
	{"the sink, topic or broker is misconfigured", failure.Halted, []*kerr.Error{
		kerr.InvalidTopicException, kerr.InvalidRequiredAcks, kerr.UnsupportedVersion, kerr.InvalidRequest,
		kerr.UnsupportedForMessageFormat, kerr.UnsupportedCompressionType,
		kerr.InvalidPartitions, kerr.InvalidReplicationFactor, kerr.InvalidReplicaAssignment, kerr.InvalidConfig,
	}},
}

func TestEveryErrorCodeHasAClass(t *testing.T) {
	listed := map[int16]bool{0: true}
	for _, group := range codes {
		for _, code := range group.errs {
			assert.False(t, listed[code.Code], code.Message, "is listed twice")
			listed[code.Code] = true
			err := (&Dialer{}).ErrorOfProduce(code.Code, "the broker's words", "topic x")
			assert.Equal(t, err.Class, group.class, group.what, code.Message)
			text := err.Error()
			assert.True(t, strings.HasPrefix(text, fmt.Sprintf("topic x: [%d] ", code.Code)) && strings.Contains(text, "the broker's words"), code.Message, err)
			assert.True(t, !code.Retriable || group.class == failure.Transient || group.class == failure.Throttled, code.Message, "may pass by itself")
			class := group.class
			if class == failure.Rejected {
				class = failure.Transient // no event is at fault if a login, say, fails
			}
			err = (&Dialer{}).Error(t.Context(), kafka.Error(code.Code), "SASL handshake")
			assert.Equal(t, err.Class, class, group.what, code.Message, "in the answer to another request, not")
		}
	}
	for code := int16(-2); code <= 140; code++ { // some are unknown
		err := (&Dialer{}).ErrorOfProduce(code, "", "topic x")
		assert.True(t, listed[code] || err.Class == failure.Transient, "code", code, "is not listed, and", err.Class)
	}
}

func TestConnectionErrors(t *testing.T) {
	certificate := &x509.Certificate{}
	for _, test := range []struct {
		what string
		err  error
		want failure.Class
	}{
		{"a name that does not exist", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "b.example", IsNotFound: true}}, failure.Transient},
		{"a name server that does not answer", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", Name: "b.example", IsTimeout: true}}, failure.Transient},
		{"a closed port", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, failure.Transient},
		{"an unreachable network", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, failure.Transient},
		{"a connection that was reset", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, failure.Transient},
		{"a connection that broke while it was written", &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, failure.Transient},
		{"a closed connection", io.EOF, failure.Transient},
		{"an answer cut short", io.ErrUnexpectedEOF, failure.Transient},
		{"a deadline", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, failure.Transient},
		{"the timeout of a dial", context.DeadlineExceeded, failure.Transient},
		{"an unknown error", errors.New("correlation id mismatch"), failure.Transient},
		{"an unknown authority", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{Cert: certificate}}, failure.Halted},
		{"a certificate for another name", &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: certificate, Host: "b.example"}}, failure.Halted},
		{"a certificate that has expired", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: certificate, Reason: x509.Expired}}, failure.Halted},
		{"a port without TLS", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, failure.Halted},
		{"a handshake that the broker refused", &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, failure.Halted},
		{"a password that the broker refused", (&Dialer{}).Error(t.Context(), kafka.SASLAuthenticationFailed, "SASL"), failure.Halted},
	} {
		t.Run(test.what, func(t *testing.T) {
			err := (&Dialer{}).broken("b.example:9092", test.err)
			class, _ := failure.ClassOf(err)
			assert.True(t, class == test.want && strings.Contains(err.Error(), "b.example:9092"), "class", class, err)
		})
	}
	t.Run("a cancelled context takes precedence", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := (&Dialer{}).Error(ctx, errors.New("closed"), "kafka broker b.example:9092")
		class, _ := failure.ClassOf(err)
		assert.True(t, class == failure.Transient && errors.Is(err, context.Canceled), "class", class, err)
	})
}
