package appliance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
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
	if e, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		if e.Cert != nil && bytes.Equal(e.Cert.RawIssuer, e.Cert.RawSubject) {
			return "the certificate is self-signed: save it to a PEM file and set tls.ca_file to that file"
		}
		return "the certificate is from an authority that this machine does not trust: set tls.ca_file to the authority's PEM file"
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the certificate is for %s: set tls.server_name to one of its names, or correct the host in url", certificateNames(e.Certificate))
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return "renew the appliance's certificate, or fix this machine's clock"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "set tls.ca_file to the authority that signed the appliance's certificate"
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "the appliance does not speak TLS on this port: check scheme and port in url"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not speak TLS: check host and port in url"
	}
	// Alerts received from the server have no exported error types.
	switch text := err.Error(); {
	case strings.Contains(text, "tls: certificate required"), strings.Contains(text, "tls: bad certificate"),
		strings.Contains(text, "tls: unknown certificate"):
		return "the appliance requires a client certificate that it trusts: set tls.cert_file and tls.key_file"
	case strings.Contains(text, "remote error: tls: "), strings.HasPrefix(text, "tls: "):
		return "the TLS handshake with the appliance failed"
	}
	return ""
}

func certificateNames(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name at all"
	}
	return strings.Join(names, ", ")
}
