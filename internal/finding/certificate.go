package finding

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// soon is the remaining validity below which a certificate is worth a warning.
const soon = 30 * 24 * time.Hour

// certificate returns a finding that describes a certificate.
func certificate(c *x509.Certificate, now time.Time) Finding {
	f := Finding{Step: "certificate", Result: OK}
	issuer := "issued by " + c.Issuer.String()
	if selfSigned(c) {
		issuer = "self-signed"
	}
	left := c.NotAfter.Sub(now)
	days := int(left / (24 * time.Hour))
	until := fmt.Sprintf("until %s, %d days left", c.NotAfter.UTC().Format(time.DateOnly), days)
	switch {
	case left <= 0:
		until = fmt.Sprintf("expired on %s", c.NotAfter.UTC().Format(time.DateOnly))
		f.Result, f.Advice = Warning, "renew it, if this machine's clock is right"
	case left < soon:
		f.Result, f.Advice = Warning, "renew it before it expires"
	}
	f.Detail = fmt.Sprintf("%s, %s, %s, SHA-256 %s", subject(c), issuer, until, fingerprint(c))
	return f
}

func selfSigned(c *x509.Certificate) bool { return bytes.Equal(c.RawIssuer, c.RawSubject) }

// subject returns the subject of a certificate, or its names if the subject is empty.
func subject(c *x509.Certificate) string {
	if text := c.Subject.String(); text != "" {
		return text
	}
	return names(c)
}

// fingerprint returns the SHA-256 fingerprint in the notation of openssl and browsers.
func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

// names returns the names that a certificate is valid for.
func names(c *x509.Certificate) string {
	all := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	if len(all) == 0 {
		return "no name at all"
	}
	return strings.Join(all, ", ")
}

// handshakeFailure explains an error of the TLS handshake; detail is empty if err is
// not one. shown are the certificates that the server presented.
func handshakeFailure(err error, address string, shown []*x509.Certificate, now time.Time) (detail, advice string) {
	if err == nil {
		return "", ""
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return unknownAuthority(address, shown)
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the certificate is not for %s, but for %s", e.Host, names(e.Certificate)),
			"set tls.server_name to one of these names, if the certificate is the right one, or fix the address"
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		detail = fmt.Sprintf("the certificate expired on %s", e.Cert.NotAfter.UTC().Format(time.DateOnly))
		if now.Before(e.Cert.NotBefore) {
			detail = fmt.Sprintf("the certificate is not valid before %s", e.Cert.NotBefore.UTC().Format(time.DateOnly))
		}
		return detail, "renew the certificate, or fix this machine's clock, which shows " + now.UTC().Format(time.DateTime) + " UTC"
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate is not trusted: " + e.Err.Error(), "see tls.ca_file and tls.server_name"
	}
	header, ok := errors.AsType[tls.RecordHeaderError](err)
	if errors.Is(err, http.ErrSchemeMismatch) || string(header.RecordHeader[:]) == "HTTP/" {
		return "the server speaks HTTP instead of TLS", "use the server's port for TLS; for a connection in plain text, change the scheme of the URL to http, or remove tls"
	}
	if ok {
		return "the server does not speak TLS", "use the server's port for TLS; for a connection in plain text, change the scheme of the URL, or remove tls"
	}
	// Alerts of the remote side have no exported error type.
	switch text := err.Error(); {
	case strings.Contains(text, "tls: certificate required"), strings.Contains(text, "tls: bad certificate"), strings.Contains(text, "tls: unknown certificate"):
		return "the server requires a client certificate that it trusts", "set tls.cert_file and tls.key_file"
	case strings.Contains(text, "remote error: tls: "):
		_, alert, _ := strings.Cut(text, "remote error: tls: ")
		return "the server refuses the TLS handshake: " + alert, "check whether it requires a client certificate (tls.cert_file) or an older version of TLS"
	case strings.HasPrefix(text, "tls: "):
		return "the TLS handshake fails: " + strings.TrimPrefix(text, "tls: "), "see the tls keys"
	}
	return "", ""
}

// unknownAuthority explains a chain that ends at an authority this machine does not
// trust.
func unknownAuthority(address string, shown []*x509.Certificate) (detail, advice string) {
	if len(shown) == 0 {
		return "the certificate was issued by an untrusted authority", "set tls.ca_file to the authority's certificate, in PEM"
	}
	last := shown[len(shown)-1]
	if selfSigned(shown[0]) {
		return "the certificate is self-signed and not trusted",
			"compare the fingerprint with the one on the server; if they match, save the certificate (openssl s_client -connect " + address +
				" </dev/null | openssl x509 -out FILE) and set tls.ca_file to FILE"
	}
	return "the certificate was issued by an untrusted authority: " + last.Issuer.String(),
		"set tls.ca_file to the certificate of that authority, in PEM; the operator of the server has it"
}
