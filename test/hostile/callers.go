package hostile

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Caller is an attack on an HTTP server. It keeps as many connections open as the server
// permits and replaces closed ones.
type Caller struct {
	Name string
	// Attack attacks the server at an address until ctx is done. It returns when its
	// connections are closed.
	Attack func(ctx context.Context, address string)
}

// Callers returns attacks on an admin interface without its token, each with a number of
// connections.
func Callers(connections int) []Caller {
	var all []Caller
	for _, path := range []string{"/api/v1/tickets/jira", "/api/v1/tickets", "/api/v1/rewind"} {
		all = append(all, Caller{"bodies of 4 MiB to " + path + " that never end", swarm(connections, func(ctx context.Context, conn net.Conn, address string) {
			endlessBody(ctx, conn, address, path)
		})})
	}
	return append(all,
		Caller{"connections that stay after a refusal", swarm(connections, idle)},
		Caller{"readers that do not read", swarm(connections, unread)},
		Caller{"headers that never end", swarm(connections, endlessHeader)},
	)
}

// Insiders returns attacks on an admin interface with its token, each with a number of
// connections.
func Insiders(connections int, token string) []Caller {
	unread := func(request string) func(context.Context, string) {
		return swarm(connections, func(ctx context.Context, conn net.Conn, address string) {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(4 << 10)
			}
			if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", request, address, token); err == nil {
				<-ctx.Done()
			}
		})
	}
	return []Caller{
		{"backups that nobody reads", unread("POST /api/v1/backup")},
		{"states that nobody reads", unread("GET /api/v1/status")},
		{"streams of all events that nobody reads", unread("GET /api/v1/events?since=2000-01-01T00:00:00Z")},
	}
}

// swarm returns an attack that holds a number of connections.
func swarm(connections int, hold func(ctx context.Context, conn net.Conn, address string)) func(context.Context, string) {
	return func(ctx context.Context, address string) {
		var all sync.WaitGroup
		for range connections {
			all.Go(func() {
				for ctx.Err() == nil {
					once(ctx, address, hold)
				}
			})
		}
		all.Wait()
	}
}

// once holds one connection until the server closes it or ctx is done.
func once(ctx context.Context, address string, hold func(ctx context.Context, conn net.Conn, address string)) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		pause(ctx)
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	hold(ctx, conn, address)
	pause(ctx) // do not flood a server that refuses at once
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(500 * time.Millisecond):
	}
}

// endlessBody sends 4 MiB except for the last byte and waits for the server's reaction.
func endlessBody(_ context.Context, conn net.Conn, address, path string) {
	const size = 4 << 20
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nX-Hub-Signature: sha256=%s\r\nContent-Length: %d\r\n\r\n",
		path, address, strings.Repeat("0", 64), size)
	junk := []byte(`"` + rand.Text() + strings.Repeat("x", 64<<10))
	for sent := 0; sent+len(junk) < size; sent += len(junk) {
		if _, err := conn.Write(junk); err != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, conn)
}

// idle sends a request that requires the token and then nothing.
func idle(_ context.Context, conn net.Conn, address string) {
	fmt.Fprintf(conn, "GET /api/v1/status HTTP/1.1\r\nHost: %s\r\n\r\n", address)
	_, _ = io.Copy(io.Discard, conn)
}

// unread requests the largest public file many times and reads no response.
func unread(ctx context.Context, conn net.Conn, address string) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	for range 64 {
		if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\nGET /metrics HTTP/1.1\r\nHost: %s\r\n\r\n", address, address); err != nil {
			return
		}
	}
	<-ctx.Done()
}

// endlessHeader sends an unlimited header.
func endlessHeader(ctx context.Context, conn net.Conn, address string) {
	fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: %s\r\n", address)
	for ctx.Err() == nil {
		if _, err := fmt.Fprintf(conn, "X-%s: %s\r\n", rand.Text(), strings.Repeat("x", 8<<10)); err != nil {
			return
		}
	}
}

// Healthy returns nil if the server at an address answers a health check. It tries a few
// times, since a server under attack may close a connection.
func Healthy(ctx context.Context, address string) error {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var err error
	for range 10 {
		var request *http.Request
		if request, err = http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil); err != nil {
			return err
		}
		var answer *http.Response
		if answer, err = client.Do(request); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("the health check was answered with %s", answer.Status)
		}
		pause(ctx)
	}
	return err
}
