package endpoint

import (
	"crypto/tls"

	"ndrbridge/configs"
	"ndrbridge/internal/secretfile"
)

// newTLS returns the TLS configuration that t describes. A client certificate is
// read again on each handshake, so that it can be renewed in place.
func newTLS(t configs.TLS) (_ *tls.Config, err error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify,
	}
	if t.CAFile != "" {
		if c.RootCAs, err = secretfile.Authorities("tls.ca_file", t.CAFile); err != nil {
			return nil, err
		}
	}
	if t.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			return secretfile.KeyPair("tls.cert_file", t.CertFile, "tls.key_file", t.KeyFile)
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return c, nil
}

// optionalTLS returns nil if there is no tls block; the scheme of the address then
// decides whether TLS is used.
func optionalTLS(t *configs.TLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	return newTLS(*t)
}
