package finding

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
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

// Recognize examines a server at address, a host and port, that does not answer as it
// should. It reports whether the server expects TLS, as ExpectsTLS does, and whether it
// answers HTTP. It takes at most one second, and at most half of the time that ctx has
// left.
func Recognize(ctx context.Context, address string) (expectsTLS, answersHTTP bool) {
	ctx, cancel := Half(ctx)
	defer cancel()
	var trials sync.WaitGroup
	trials.Go(func() { expectsTLS = ExpectsTLS(ctx, address) })
	trials.Go(func() { answersHTTP = answersInHTTP(ctx, address) })
	trials.Wait()
	return expectsTLS, answersHTTP
}

func answersInHTTP(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", address); err != nil {
		return false
	}
	begin := make([]byte, len("HTTP/"))
	_, err = io.ReadFull(conn, begin)
	return err == nil && string(begin) == "HTTP/"
}

// PlainToTLS returns the finding for a plaintext connection to a server that expects
// TLS. scheme is the scheme of a TLS connection.
func PlainToTLS(scheme string) Finding {
	return Finding{
		Step: "tls", Result: Failed, Detail: "the server expects TLS, but the connection is in plain text",
		Advice: "use " + scheme + ":// in url, or the server's plaintext port",
	}
}
