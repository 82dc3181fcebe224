package finding

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"
)

// ExpectsTLS reports whether the server at address, a host and port, answers a TLS
// handshake. Such a server sends nothing, or nothing of its protocol, over a plaintext
// connection. ExpectsTLS sends only a handshake and verifies nothing.
func ExpectsTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a plaintext port never answers a TLS handshake
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	host, _, _ := net.SplitHostPort(address)
	err = tls.Client(conn, &tls.Config{ServerName: host, InsecureSkipVerify: true}).HandshakeContext(ctx)
	_, alert := errors.AsType[tls.AlertError](err)
	return err == nil || alert || strings.Contains(err.Error(), "remote error: tls: ")
}

// PlainToTLS returns the finding for a plaintext connection to a server that expects
// TLS. scheme is the scheme of a TLS connection.
func PlainToTLS(scheme string) Finding {
	return Finding{
		Step: "tls", Result: Failed, Detail: "the server expects TLS, but the connection is in plain text",
		Advice: "use " + scheme + ":// in url, or the server's plaintext port",
	}
}
