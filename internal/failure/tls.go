package failure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
)

// TLSAdvice returns advice for a TLS handshake that failed because of the
// configuration of either side, which halts the sink. The advice names keys of the
// sink's tls block. It returns "" for any other error.
func TLSAdvice(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "set tls.ca_file to the certificate of the authority that signed the server's"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "set tls.server_name to a name in the server's certificate"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "the server's certificate must be renewed, or this machine's clock is wrong"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "check tls.ca_file and tls.server_name"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not speak TLS on this port"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return "the server refused the handshake: does it require a client certificate (tls.cert_file)?"
	}
	// The other handshake errors have no types, only texts.
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		switch text := inner.Error(); {
		case strings.HasPrefix(text, "tls: "):
			return "check the tls keys"
		case text == "http2: client conn could not be established":
			return "the server closed the connection right after the handshake: does it require a client certificate (tls.cert_file)?"
		}
	}
	return ""
}
