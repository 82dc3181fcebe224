package preflight

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

// ExpectsTLS reports whether what listens at an address, host and port, answers a TLS
// handshake. Who is spoken to in plain text there says nothing, or something else than
// its protocol. It sends nothing but the handshake, and verifies nothing.
func ExpectsTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a plain port may wait for more
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

// Recognize reports what listens at an address, host and port, that does not answer as it
// should: a port that expects TLS, as ExpectsTLS reports, or one that answers HTTP. It
// takes a second at most, and no more than half of the time that ctx has left.
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

// PlainToTLS is the finding of a plain connection to an address where ExpectsTLS is
// true. scheme is that of a secured one.
func PlainToTLS(scheme string) Finding {
	return Finding{
		Step: "tls", Result: Failed, Detail: "what listens there expects TLS, and is spoken to in plain text",
		Advice: "use " + scheme + ":// in url, or the port for plain connections",
	}
}
