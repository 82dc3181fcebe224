package hostile

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Caller is an attack on an HTTP server.
type Caller struct {
	Name string
	// hold attacks on one connection until the server closes it or ctx is done.
	hold func(ctx context.Context, conn net.Conn)
}

// Callers returns attacks on an admin interface without its token.
func Callers() []Caller {
	var all []Caller
	for _, path := range []string{"/api/v1/tickets/jira", "/api/v1/tickets", "/api/v1/rewind"} {
		all = append(all, Caller{"bodies of 4 MiB to " + path + " that never end", endlessBody(path)})
	}
	return append(all,
		Caller{"connections that stay after a refusal", idle},
		Caller{"readers that do not read", unread(64, "", "GET /", "GET /metrics")},
		Caller{"headers that never end", endlessHeader},
	)
}

// Insiders returns attacks on an admin interface with its token.
func Insiders(token string) []Caller {
	header := "Authorization: Bearer " + token + "\r\n"
	return []Caller{
		{"backups that nobody reads", unread(1, header, "POST /api/v1/backup")},
		{"states that nobody reads", unread(1, header, "GET /api/v1/status")},
		{"streams of all events that nobody reads", unread(1, header, "GET /api/v1/events?since=2000-01-01T00:00:00Z")},
	}
}

// Attack attacks the server at an address until ctx is done. It keeps a number of connections
// open, as far as the server permits, and replaces closed ones. It returns when all are closed.
func (c Caller) Attack(ctx context.Context, address string, connections int) {
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for ctx.Err() == nil {
				c.once(ctx, address)
				select { // do not flood a server that refuses at once
				case <-ctx.Done():
				case <-time.After(500 * time.Millisecond):
				}
			}
		})
	}
	all.Wait()
}

// once holds one connection.
func (c Caller) once(ctx context.Context, address string) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	c.hold(ctx, conn)
}

// endlessBody sends 4 MiB except for the last byte and waits for the server's reaction.
func endlessBody(path string) func(context.Context, net.Conn) {
	return func(_ context.Context, conn net.Conn) {
		const size = 4 << 20
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nX-Hub-Signature: sha256=%s\r\nContent-Length: %d\r\n\r\n",
			path, conn.RemoteAddr(), strings.Repeat("0", 64), size)
		junk := []byte(`"` + rand.Text() + strings.Repeat("x", 64<<10))
		for sent := 0; sent+len(junk) < size; sent += len(junk) {
			if _, err := conn.Write(junk); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn)
	}
}

// idle sends a request that requires the token and then nothing.
func idle(_ context.Context, conn net.Conn) {
	fmt.Fprintf(conn, "GET /api/v1/status HTTP/1.1\r\nHost: %s\r\n\r\n", conn.RemoteAddr())
	_, _ = io.Copy(io.Discard, conn)
}

// unread sends requests with a header a number of times and reads no response.
func unread(times int, header string, requests ...string) func(context.Context, net.Conn) {
	return func(ctx context.Context, conn net.Conn) {
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		for range times {
			for _, request := range requests {
				if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", request, conn.RemoteAddr(), header); err != nil {
					return
				}
			}
		}
		<-ctx.Done()
	}
}

// endlessHeader sends an unlimited header.
func endlessHeader(ctx context.Context, conn net.Conn) {
	fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: %s\r\n", conn.RemoteAddr())
	for ctx.Err() == nil {
		if _, err := fmt.Fprintf(conn, "X-%s: %s\r\n", rand.Text(), strings.Repeat("x", 8<<10)); err != nil {
			return
		}
	}
}
