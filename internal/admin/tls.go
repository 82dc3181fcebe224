package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"ndrbridge/internal/secretfile"
)

// TLS names the files with which the admin interface is served by HTTPS.
type TLS struct {
	// CertFile is a PEM file with the certificate, followed by its intermediates, and
	// KeyFile one with its private key.
	CertFile string
	KeyFile  string
	// ClientCAFile is a PEM file with the authorities that sign clients' certificates. If
	// it is empty, no client is asked for one.
	ClientCAFile string
}

// Server returns the configuration of a server. The files are read again when they have
// changed; if they cannot be used then, the server keeps what it has and logs why, because
// a certificate and its key are not replaced at the same moment. It returns an error if
// they cannot be used now.
//
// A client may come without a certificate; the handler knows which requests require one.
// If a client sends one, it must be signed by an authority of ClientCAFile, or be the
// server's own: who can read KeyFile operates the bridge.
func (t TLS) Server(log *slog.Logger) (*tls.Config, error) {
	s := &serverTLS{files: t, log: log}
	if err := s.load(); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: s.current}, nil
}

// Client returns the configuration of a client on the same machine. It accepts nothing but
// the certificate in CertFile, whatever name it has, and sends that one if it is asked to.
func (t TLS) Client() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection compares the certificate
		VerifyConnection: func(state tls.ConnectionState) error {
			own, err := t.leaf()
			if err != nil {
				return err
			}
			if !own.Equal(state.PeerCertificates[0]) {
				return fmt.Errorf("the certificate of the bridge is not that of admin.tls.cert_file (%s)", t.CertFile)
			}
			return nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.pair() },
	}
}

// dialMember returns a function that connects to other members of the cluster by TLS. It trusts the
// authorities of the system and the certificates in CertFile, and sends that certificate if clients
// have to send one. The files are read for each connection.
func (t TLS) dialMember(dialer *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if t.CertFile != "" {
			own, err := secretfile.Read(t.CertFile)
			if err != nil {
				return nil, fmt.Errorf("admin.tls.cert_file: %w", err)
			}
			if config.RootCAs, err = x509.SystemCertPool(); err != nil {
				config.RootCAs = x509.NewCertPool()
			}
			config.RootCAs.AppendCertsFromPEM(own)
		}
		if t.ClientCAFile != "" {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.pair() }
		}
		return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
	}
}

// pair reads the certificate and its key.
func (t TLS) pair() (*tls.Certificate, error) {
	return secretfile.KeyPair("admin.tls.cert_file", t.CertFile, "admin.tls.key_file", t.KeyFile)
}

// leaf reads the certificate alone, as a caller can who may not read the key.
func (t TLS) leaf() (*x509.Certificate, error) {
	text, err := secretfile.Read(t.CertFile)
	if err != nil {
		return nil, fmt.Errorf("admin.tls.cert_file: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("admin.tls.cert_file: %s contains no PEM certificate", t.CertFile)
}

// serverTLS makes the configuration for each handshake. It is safe for concurrent use.
type serverTLS struct {
	files TLS
	log   *slog.Logger

	mu     sync.Mutex
	config *tls.Config
	read   stamps // of the files that config was made of
	failed stamps // of the files that could not be used
}

// stamps identify the versions of files.
type stamps [3]struct {
	changed time.Time
	size    int64
}

func (t TLS) stamps() (all stamps) {
	for i, path := range []string{t.CertFile, t.KeyFile, t.ClientCAFile} {
		if info, err := os.Stat(path); err == nil {
			all[i].changed, all[i].size = info.ModTime(), info.Size()
		}
	}
	return all
}

// load reads the files.
func (s *serverTLS) load() error {
	read := s.files.stamps() // before the files: a change in between is seen by the next
	pair, err := s.files.pair()
	if err != nil {
		return err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair}, NextProtos: []string{"http/1.1"}}
	if s.files.ClientCAFile != "" {
		if config.ClientCAs, err = secretfile.Authorities("admin.tls.client_ca_file", s.files.ClientCAFile); err != nil {
			return err
		}
		config.ClientAuth = tls.RequestClientCert
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return verifyClient(state.PeerCertificates, config.ClientCAs, pair.Certificate[0])
		}
	}
	s.config, s.read = config, read
	return nil
}

// current implements tls.Config.GetConfigForClient.
func (s *serverTLS) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.files.stamps(); now != s.read && now != s.failed {
		if err := s.load(); err != nil {
			s.failed = now
			s.log.Error("the changed certificate of the admin interface cannot be used; the previous one is served", "error", err)
		} else {
			s.failed = stamps{}
			s.log.Info("the certificate of the admin interface was read again")
		}
	}
	return s.config, nil
}

// verifyClient returns an error if a client sent certificates of which the first is
// neither own nor signed by one of the authorities.
func verifyClient(sent []*x509.Certificate, authorities *x509.CertPool, own []byte) error {
	if len(sent) == 0 || bytes.Equal(sent[0].Raw, own) {
		return nil
	}
	between := x509.NewCertPool()
	for _, c := range sent[1:] {
		between.AddCert(c)
	}
	_, err := sent[0].Verify(x509.VerifyOptions{
		Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("the client's certificate is refused: %w", err)
	}
	return nil
}
