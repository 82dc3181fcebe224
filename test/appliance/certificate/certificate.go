// Package certificate implements the certificate with which the stand-in appliance serves
// HTTPS: it is generated again, replaced, and requested from an authority.
package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// selfSigned creates a self-signed certificate for the loopback addresses and a host. A client
// can also trust it as an authority.
func selfSigned(now time.Time, host string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create a key: %w", err)
	}
	const valid = 7 * 24 * time.Hour
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()), // unique even if now stands still
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
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = append(template.IPAddresses, ip)
	} else {
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create a certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// parse returns the certificate in a text: a PEM certificate, those of its authorities, and
// its private key. Without a key, it must be for the key of the current certificate.
func parse(text []byte, current crypto.PrivateKey) (*tls.Certificate, error) {
	var keyBlock []byte
	made := &tls.Certificate{}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		switch block.Type {
		case "CERTIFICATE":
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				return nil, errors.New("a certificate cannot be read")
			}
			made.Certificate = append(made.Certificate, block.Bytes)
		case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY":
			if keyBlock != nil {
				return nil, errors.New("there are two private keys; send one")
			}
			keyBlock = pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
		case "EC PARAMETERS": // precedes a key that some tools write
		default:
			return nil, fmt.Errorf("a PEM block is a %s; send certificates and a private key without a password", block.Type)
		}
	}
	if len(made.Certificate) == 0 {
		return nil, errors.New("there is no certificate in PEM")
	}
	if keyBlock == nil {
		made.PrivateKey = current
		return made, matches(made)
	}
	var chain []byte
	for _, der := range made.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	pair, err := tls.X509KeyPair(chain, keyBlock)
	if err != nil {
		return nil, errors.New("the private key cannot be read or is not that of the certificate")
	}
	return &pair, matches(&pair)
}

// The lengths of RSA keys with which Go makes connections, in bits.
const minRSA, maxRSA = 1024, 8192

// matches returns an error if a certificate is not for its private key, or cannot be served.
func matches(c *tls.Certificate) error {
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		return errors.New("the certificate cannot be read")
	}
	switch public := leaf.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < minRSA || bits > maxRSA {
			return fmt.Errorf("the key has %d bits; it must have %d to %d", bits, minRSA, maxRSA)
		}
	case *ecdsa.PublicKey:
		if public.Curve == elliptic.P224() {
			return errors.New("the curve of the key is P-224, which TLS does not have any more")
		}
	}
	public, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	signer, isSigner := c.PrivateKey.(crypto.Signer)
	if !ok || !isSigner || !public.Equal(signer.Public()) {
		return errors.New("the certificate is for another key; send its private key as well")
	}
	return nil
}
