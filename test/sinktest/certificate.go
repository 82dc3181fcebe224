package sinktest

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"ndrbridge/test/certificate"
)

// Certificate creates a self-signed certificate for 127.0.0.1 and a pool that contains
// it as an authority.
func Certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	c := certificate.New(t, "127.0.0.1", time.Now().Add(time.Hour), nil)
	pool := x509.NewCertPool()
	pool.AddCert(c.Leaf)
	return c, pool
}
