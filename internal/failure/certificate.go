package failure

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// DescribeCertificate returns the subject of a certificate, or its names if that is empty, and
// the issuer, in one bounded line.
func DescribeCertificate(c *x509.Certificate) string {
	subject := cmp.Or(quoted(c.Subject.String()), names(c))
	if selfSigned(c) {
		return subject + ", self-signed"
	}
	return subject + ", issued by " + quoted(c.Issuer.String())
}

func selfSigned(c *x509.Certificate) bool { return bytes.Equal(c.RawIssuer, c.RawSubject) }

// names returns the names that a certificate is valid for.
func names(c *x509.Certificate) string {
	all := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	if len(all) == 0 {
		return "no name at all"
	}
	return quoted(strings.Join(all, ", "))
}

// certificateFaults returns all faults of the server's certificate. crypto/tls reports only the
// first of them, in the order of time, name and authority.
func certificateFaults(err error, p Peer) (found faults) {
	failed, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	invalid, outdated := errors.AsType[x509.CertificateInvalidError](err)
	outdated = outdated && invalid.Reason == x509.Expired
	other, misnamed := errors.AsType[x509.HostnameError](err)
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	now := p.Time()
	var shown []*x509.Certificate
	if unverified {
		shown = failed.UnverifiedCertificates
	}
	if len(shown) > 0 && p.TLS != nil {
		if !misnamed {
			other, misnamed = errors.AsType[x509.HostnameError](shown[0].VerifyHostname(serverName(err, p)))
		}
		untrusted = untrusted || isUntrusted(shown, p.TLS.RootCAs, now)
	}
	if outdated {
		f := fault{cause: "certificate expired", advice: "renew the certificate, or fix this machine's clock, which shows " + now.UTC().Format(time.DateTime) + " UTC"}
		f.detail = "the certificate expired on " + invalid.Cert.NotAfter.UTC().Format(time.DateOnly)
		if now.Before(invalid.Cert.NotBefore) {
			f.cause, f.detail = "certificate not yet valid", "the certificate is not valid before "+invalid.Cert.NotBefore.UTC().Format(time.DateOnly)
		}
		found = append(found, f)
	}
	if misnamed {
		found = append(found, fault{
			"certificate names another host", fmt.Sprintf("the certificate is not for %s, but for %s", other.Host, p.hidden(names(other.Certificate))),
			"set tls.server_name to one of these names, if the certificate is the right one, or fix the address",
		})
	}
	if untrusted {
		found = append(found, unknownAuthority(p, shown))
	}
	if unverified && len(found) == 0 {
		found = faults{{"certificate not trusted", "the certificate is not trusted: " + p.hidden(quoted(failed.Err.Error())), "see tls.ca_file and tls.server_name"}}
	}
	return found
}

// serverName returns the name that the certificate must have.
func serverName(err error, p Peer) string {
	address := p.Address
	if isOfProxy(err) {
		address = p.Proxy
	}
	host, _, _ := net.SplitHostPort(address)
	return cmp.Or(p.TLS.ServerName, host)
}

// isUntrusted reports whether a chain does not end at one of the roots, whether or not its first
// certificate is valid now.
func isUntrusted(shown []*x509.Certificate, roots *x509.CertPool, now time.Time) bool {
	if now.After(shown[0].NotAfter) {
		now = shown[0].NotAfter
	} else if now.Before(shown[0].NotBefore) {
		now = shown[0].NotBefore
	}
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now})
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	return untrusted
}

// unknownAuthority explains a chain that ends at an authority that is not trusted.
func unknownAuthority(p Peer, shown []*x509.Certificate) fault {
	f := fault{"certificate not trusted", "the certificate was issued by an untrusted authority", "set tls.ca_file to the certificate of that authority, in PEM; the operator of the server has it"}
	if len(shown) == 0 {
		return f
	}
	last := shown[len(shown)-1]
	f.detail += ": " + p.hidden(quoted(last.Issuer.String()))
	if selfSigned(shown[0]) {
		f.detail = "the certificate is self-signed and not trusted"
		f.advice = "compare the fingerprint with the one on the server; if they match, save the certificate (openssl s_client -connect " + p.Address +
			" </dev/null | openssl x509 -out FILE) and set tls.ca_file to FILE"
	}
	if p.TLS != nil && p.TLS.RootCAs != nil {
		f.detail += ", and tls.ca_file holds " + held(p.TLS.RootCAs, last.RawIssuer)
	}
	return f
}

// held describes the authorities of a ca_file, of which none is the wanted one.
func held(pool *x509.CertPool, wanted []byte) string {
	var all []string
	//lint:ignore SA1019 The pool is not that of the system, whose authorities would be missing.
	for _, raw := range pool.Subjects() {
		var subject pkix.RDNSequence
		if bytes.Equal(raw, wanted) {
			return "another certificate of that name, which may have been renewed"
		}
		if rest, err := asn1.Unmarshal(raw, &subject); err == nil && len(rest) == 0 {
			all = append(all, subject.String())
		}
	}
	return "only " + quoted(strings.Join(all, " and "))
}
