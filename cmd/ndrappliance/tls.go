package main

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	standin "ndrbridge/test/appliance"
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

// enabled reports whether HTTPS is served.
func (t tlsSettings) enabled() bool { return t.cert != "" || t.selfSigned }

// certificate returns the certificate at the start; nil: the appliance makes one.
func (t tlsSettings) certificate() (*tls.Certificate, error) {
	if t.cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(t.cert, t.key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	return &pair, nil
}

// config returns the settings of HTTPS, with the certificate that an appliance has when a
// client connects, and writes the present one to the file for clients to trust.
func (t tlsSettings) config(a *standin.Appliance) (*tls.Config, error) {
	if t.caOut != "" {
		certificate, err := a.GetCertificate(nil)
		if err != nil {
			return nil, fmt.Errorf("create a certificate: %w", err)
		}
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
		if err := os.WriteFile(t.caOut, block, 0o644); err != nil {
			return nil, fmt.Errorf("write the certificate: %w", err)
		}
	}
	return &tls.Config{
		GetCertificate:         a.GetCertificate,
		MinVersion:             tls.VersionTLS12,
		SessionTicketsDisabled: true, // a client that resumes a session keeps the old certificate
	}, nil
}
