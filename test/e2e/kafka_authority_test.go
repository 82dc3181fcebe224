//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ndrbridge/test/require"
)

// authority issues certificates for 127.0.0.1.
type authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{folder: t.TempDir(), key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	writePEM(t, a.file(), pemBlock("CERTIFICATE", der))
	return a
}

// file is the path of the authority's own certificate.
func (a *authority) file() string { return filepath.Join(a.folder, "authority.pem") }

// issue issues a certificate and writes files with it, its key, and both.
func (a *authority) issue(t testing.TB, name string) (certFile, keyFile, bothFile string) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile, bothFile = filepath.Join(a.folder, name+".pem"), filepath.Join(a.folder, name+".key"), filepath.Join(a.folder, name+"-both.pem")
	writePEM(t, certFile, pemBlock("CERTIFICATE", der))
	writePEM(t, keyFile, pemBlock("PRIVATE KEY", private))
	writePEM(t, bothFile, pemBlock("PRIVATE KEY", private), pemBlock("CERTIFICATE", der))
	return certFile, keyFile, bothFile
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func writePEM(t testing.TB, path string, blocks ...[]byte) {
	t.Helper()
	var text []byte
	for _, b := range blocks {
		text = append(text, b...)
	}
	require.NoError(t, os.WriteFile(path, text, 0o600))
}
