package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"ndrbridge/configs"
)

// newTLS returns the TLS configuration that t describes. A client certificate is
// read again on each handshake, so that it can be renewed in place.
func newTLS(t configs.TLS) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify,
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s contains no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
			}
			return &pair, nil
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
