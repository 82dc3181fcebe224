package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// tlsSettings selects HTTPS and its certificate.
type tlsSettings struct {
	cert, key  string
	selfSigned bool
	caOut      string
}

func (t tlsSettings) check() error {
	switch {
	case (t.cert == "") != (t.key == ""):
		return errors.New("--tls-cert and --tls-key must be given together")
	case t.cert != "" && t.selfSigned:
		return errors.New("--self-signed and --tls-cert exclude each other")
	case t.caOut != "" && !t.selfSigned:
		return errors.New("--ca-out requires --self-signed")
	}
	return nil
}

// certificate returns the certificate for HTTPS, or nil to serve HTTP.
func (t tlsSettings) certificate() (*tls.Certificate, error) {
	switch {
	case t.cert != "":
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate: %w", err)
		}
		return &pair, nil
	case t.selfSigned:
		pair, err := selfSign()
		if err != nil {
			return nil, fmt.Errorf("create a certificate: %w", err)
		}
		if t.caOut != "" {
			block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
			if err := os.WriteFile(t.caOut, block, 0o644); err != nil {
				return nil, fmt.Errorf("write the certificate: %w", err)
			}
		}
		return pair, nil
	}
	return nil, nil
}

// selfSign creates a self-signed certificate for the loopback addresses.
func selfSign() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	const valid = 7 * 24 * time.Hour
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "stand-in appliance"},
		NotBefore:             now.Add(-time.Hour), // tolerate clients with a slow clock
		NotAfter:              now.Add(valid),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
