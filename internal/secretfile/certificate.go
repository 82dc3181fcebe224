package secretfile

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// KeyPair reads a PEM certificate, followed by its intermediates, and a PEM private key. Errors
// begin with the names of the configuration's keys, or of the flags, that have the paths.
func KeyPair(certName, certFile, keyName, keyFile string) (*tls.Certificate, error) {
	certificate, err := Read(certFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certName, err)
	}
	key, err := Read(keyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyName, err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certName, keyName, err)
	}
	return &pair, nil
}

// Authorities reads PEM certificates of authorities. Errors begin with the name of the
// configuration's key, or of the flag, that has the path.
func Authorities(name, file string) (*x509.CertPool, error) {
	text, err := Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: %s contains no PEM certificate", name, file)
	}
	return pool, nil
}
