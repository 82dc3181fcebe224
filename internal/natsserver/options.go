package natsserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/secretfile"
)

const (
	// noPort is the port for clients. Nothing can listen at it, which the server logs, and goes
	// on. With Options.DontListen, it would wait for that port before it connects to others.
	noPort     = 1 << 16
	maxClients = 64       // the member, and commands
	maxMemory  = 64 << 20 // of JetStream; no stream is in memory
	keysOfTLS  = "nats.embedded.tls."
)

// options returns the options of the server. By default, JetStream may use three quarters of the
// free disk space.
func (s *Server) options() (*server.Options, error) {
	c, e := s.cluster, s.cluster.NATS.Embedded
	if err := Check(c); err != nil {
		return nil, fmt.Errorf("cluster.%w", err)
	}
	host, portText, err := net.SplitHostPort(e.Listen)
	port, errPort := strconv.Atoi(portText)
	if err := errors.Join(err, errPort); err != nil {
		return nil, fmt.Errorf("cluster.nats.embedded.listen: %w", err)
	}
	if err := os.MkdirAll(e.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("cluster.nats.embedded.folder: %w", err)
	}
	o := &server.Options{
		ServerName: c.Member, NoSigs: true, DisableJetStreamBanner: true,
		Host: "127.0.0.1", Port: noPort, MaxConn: maxClients, CustomClientAuthentication: members{c.Name},
		Cluster:   server.ClusterOpts{Name: c.Name, Host: host, Port: port, NoAdvertise: true, TLSConfig: mutualTLS(e)},
		JetStream: true, StoreDir: e.Folder, SyncAlways: true, JetStreamMaxMemory: maxMemory,
	}
	for _, peer := range e.Peers {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: peer})
	}
	if s.change != nil {
		s.change(o)
	}
	return o, nil
}

// members lets members of the cluster with this name connect, and nobody else.
type members struct{ cluster string }

// Check implements server.Authentication.
func (m members) Check(c server.ClientAuthentication) bool {
	address := c.RemoteAddress()
	if c.Kind() != server.CLIENT || address == nil || address.Network() != "pipe" { // that of net.Pipe
		return false
	}
	publish, subscribe, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(replicated.Rights, "publish:"), "NAME", m.cluster), "subscribe:")
	c.RegisterUser(&server.User{Username: "member", Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: strings.Fields(publish)},
		Subscribe: &server.SubjectPermission{Allow: strings.Fields(subscribe)},
	}})
	return true
}

// Check returns why the other members would refuse this one's certificate. The error begins with
// a key of cluster.
func Check(c *configs.Cluster) error {
	pair, err := keyPair(c.NATS.Embedded)
	if err != nil {
		return err
	}
	if err := verify(c.NATS.Embedded, pair.Certificate); err != nil {
		return fmt.Errorf(keysOfTLS+"cert_file: the other members would refuse this certificate: %w", err)
	}
	return nil
}

func keyPair(e *configs.Embedded) (*tls.Certificate, error) {
	return secretfile.KeyPair(keysOfTLS+"cert_file", e.TLS.CertFile, keysOfTLS+"key_file", e.TLS.KeyFile)
}

// mutualTLS returns the configuration of both ends of a connection between members.
func mutualTLS(e *configs.Embedded) *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return keyPair(e) },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return keyPair(e) },
		ClientAuth:           tls.RequireAnyClientCert,
		// VerifyPeerCertificate verifies the other end, on both sides: one that another member
		// named has an address without a name, and the authorities may change. It is not called
		// for a session that is resumed.
		InsecureSkipVerify:     true,
		VerifyPeerCertificate:  func(sent [][]byte, _ [][]*x509.Certificate) error { return verify(e, sent) },
		SessionTicketsDisabled: true,
	}
}

// verify returns an error unless a certificate, followed by its intermediates, belongs to a server
// of the cluster.
func verify(e *configs.Embedded, sent [][]byte) error {
	authorities, err := secretfile.Authorities(keysOfTLS+"ca_file", e.TLS.CAFile)
	if err != nil {
		return err
	}
	chain, err := x509.ParseCertificates(bytes.Join(sent, nil))
	if err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, one := range chain[1:] {
		between.AddCert(one)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between}); err != nil {
		return err
	}
	member := func(peer string) bool {
		host, _, err := net.SplitHostPort(peer)
		return err == nil && chain[0].VerifyHostname(host) == nil
	}
	if !slices.ContainsFunc(e.Peers, member) {
		return fmt.Errorf("the certificate of %s is valid for none of the hosts in cluster.nats.embedded.peers", chain[0].Subject)
	}
	return nil
}
