package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/hostile"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// listen serves the admin interface with its limits and a webhook for Jira.
func listen(t *testing.T) (*control, string) {
	t.Helper()
	c := newControl(t)
	server := admin.NewServer(withIntakes(t, c, readSecret))
	l := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return c, l.Addr().String()
}

// dial opens a connection and sends text.
func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

func TestOperatorIsServedDespiteHostileCallers(t *testing.T) {
	for _, caller := range hostile.Callers() {
		t.Run(caller.Name, func(t *testing.T) {
			_, address := listen(t)
			ctx, stop := context.WithCancel(t.Context())
			var attacking sync.WaitGroup
			attacking.Go(func() { caller.Attack(ctx, address, 20) })
			defer attacking.Wait()
			defer stop()
			for range 2 {
				time.Sleep(50 * time.Millisecond)
				expectHealthy(t, address)
				client, err := admin.NewClient("http://"+address, token)
				require.NoError(t, err)
				_, err = client.Status(t.Context())
				require.NoError(t, err)
			}
		})
	}
}

// expectHealthy checks that the server at an address answers a health check. It tries a few
// times, since a server under attack may close a connection.
func expectHealthy(t *testing.T, address string) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var err error
	for range 10 {
		var answer *http.Response
		if answer, err = client.Get("http://" + address + "/healthz"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
			err = fmt.Errorf("the health check was answered with %s", answer.Status)
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Fatal(err)
}

func TestBodiesOfUnauthenticatedCallersAreLimited(t *testing.T) {
	t.Parallel()
	const callers, most = 60, 16
	_, address := listen(t)
	header := func(length int) string {
		return fmt.Sprintf("POST /api/v1/tickets/jira HTTP/1.1\r\nHost: x\r\nX-Hub-Signature: sha256=%064d\r\nContent-Length: %d\r\n\r\n{", 0, length)
	}
	refused := make(chan string, callers)
	for range callers {
		conn := dial(t, address, header(1<<20))
		go func() {
			line, _ := bufio.NewReader(conn).ReadString('\n')
			refused <- line
		}()
	}
	for range callers - most {
		line := <-refused
		require.True(t, strings.HasPrefix(line, "HTTP/1.1 503 "), line, "want 503")
	}
	t.Run("an authenticated one is read nevertheless", func(t *testing.T) {
		answer, body := request(t, http.MethodPost, "http://"+address+"/api/v1/sinks/lake/requeue", `{"keys": []}`, token)
		assert.Equal(t, answer.StatusCode, http.StatusOK, body)
	})
}

// signed returns a request of the ticket system, with a body that differs by n.
func signed(n int) string {
	body := fmt.Sprintf(`{"webhookEvent": "jira:issue_created", "timestamp": %d, "issue": {"key": "SEC-1", "fields": {"status": {"name": "x", "statusCategory": {"key": "new"}}}}}`, n)
	return fmt.Sprintf("POST /api/v1/tickets/jira HTTP/1.1\r\nHost: x\r\nX-Hub-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", signature(body), len(body), body)
}

func TestIdleBodiesKeepNoOthersOut(t *testing.T) {
	t.Parallel()
	_, address := listen(t)
	idle := fmt.Sprintf("POST /api/v1/tickets/jira HTTP/1.1\r\nHost: x\r\nX-Hub-Signature: sha256=%064d\r\nContent-Length: 1000\r\n\r\n{", 0)
	ended := make(chan struct{}, 100)
	for n := range 18 {
		for range 16 {
			conn := dial(t, address, idle)
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				ended <- struct{}{}
			}()
			if n > 0 {
				<-ended // one of those before
			}
		}
		line, err := bufio.NewReader(dial(t, address, signed(n))).ReadString('\n')
		assert.True(t, strings.HasPrefix(line, "HTTP/1.1 202 "), "request", n+1, line, err)
	}
}

func TestBodiesOfTheBusiestAddressAreCutOffFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipes{make(chan net.Conn, 1), make(chan struct{})}
		c := newControl(t)
		server := admin.NewServer(withIntakes(t, c, readSecret))
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(l) })
		open := func(address string) net.Conn {
			near, far := net.Pipe()
			l.accepted <- from{far, address}
			fmt.Fprintf(near, "POST /api/v1/tickets/jira HTTP/1.1\r\nHost: x\r\nX-Hub-Signature: sha256=%064d\r\nContent-Length: 1000\r\n\r\n{", 0)
			synctest.Wait()
			return near
		}
		slow := open("192.0.2.1:1")
		for n := range 40 {
			conn := open(fmt.Sprintf("192.0.2.2:%d", n+1))
			defer conn.Close()
		}
		_ = slow.SetReadDeadline(time.Now().Add(time.Second))
		n, err := slow.Read(make([]byte, 100))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "the body of another address was ended", n, "bytes")
		_ = slow.SetReadDeadline(time.Time{})
		begun := time.Now()
		_, err = slow.Read(make([]byte, 1000))
		assert.True(t, err == nil && time.Since(begun) <= 10*time.Second, "an idle body was ended after", time.Since(begun), err)
		slow.Close()
		server.Close()
		serving.Wait()
	})
}

// from is a connection of a caller at an address.
type from struct {
	net.Conn
	address string
}

func (f from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.address))
}

func TestRefusedConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	_, address := listen(t)
	for name, text := range map[string]string{
		"without a token":                     "GET /api/v1/status HTTP/1.1\r\nHost: x\r\n\r\n",
		"without a token, with a body":        "POST /api/v1/rewind HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n{",
		"without a signature, with a body":    "POST /api/v1/tickets/jira HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{",
		"from a page of another site":         "POST /api/v1/reload HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: cross-site\r\n\r\n",
		"with a header that is far too large": "GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 30<<10) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			answer := require.Value(io.ReadAll(dial(t, address, text)))(t)
			assert.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 4"))
		})
	}
}

func TestConnectionsAreLimitedAndANewOneIsServed(t *testing.T) {
	t.Parallel()
	const opened, most = 260, 200
	_, address := listen(t)
	closed := make(chan struct{}, opened)
	for range opened {
		conn := dial(t, address, "")
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			closed <- struct{}{}
		}()
	}
	for range opened - most {
		<-closed
	}
	expectHealthy(t, address)
}

func TestEventStreamsAreLimited(t *testing.T) {
	t.Parallel()
	const most = 16
	c, address := listen(t)
	c.tail = func(ctx context.Context, _ func(transform.Event) error) error {
		<-ctx.Done()
		return nil
	}
	text := "GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	for n := range most + 1 {
		line, err := bufio.NewReader(dial(t, address, text)).ReadString('\n')
		want := "HTTP/1.1 200 "
		assert.True(t, err == nil && (n >= most || strings.HasPrefix(line, want)) && (n != most || strings.HasPrefix(line, "HTTP/1.1 503 ")), "stream", n+1, line, err)
	}
}

func TestCrossSiteReadsAreRefused(t *testing.T) {
	t.Parallel()
	_, address := listen(t)
	for _, path := range []string{"/metrics", "/api/v1/status", "/api/v1/events"} {
		answer, body := send(t, http.MethodGet, "http://"+address+path, "", "Authorization", "Bearer "+token, "Sec-Fetch-Site", "cross-site")
		checkProblem(t, answer, body, http.StatusForbidden, "another site")
	}
	answer, body := request(t, http.MethodGet, "http://"+address+"/api/v1/backup", "", token)
	checkProblem(t, answer, body, http.StatusMethodNotAllowed, "POST")
}

// pipes is a listener of in-memory connections, for use in a synctest bubble.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	close(p.closed)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func TestStalledReaderEndsABackup(t *testing.T) {
	for _, test := range []struct {
		name  string
		pause time.Duration // between two reads
		whole bool
	}{
		{"a slow reader gets all of it", time.Second, true},
		{"a stalled reader is disconnected", time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newControl(t)
				ended := make(chan error, 1)
				c.backup = func(w io.Writer) (err error) {
					for n := 0; n < 20 && err == nil; n++ {
						_, err = w.Write(make([]byte, 32<<10))
					}
					ended <- err
					return err
				}
				server := admin.NewServer(handler(c))
				l := pipes{make(chan net.Conn, 1), make(chan struct{})}
				var serving sync.WaitGroup
				serving.Go(func() { _ = server.Serve(l) })
				near, far := net.Pipe()
				l.accepted <- far
				fmt.Fprintf(near, "POST /api/v1/backup HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n", token)
				go func() {
					for {
						if _, err := near.Read(make([]byte, 32<<10)); err != nil {
							return
						}
						select {
						case <-time.After(test.pause):
						case <-l.closed:
							return
						}
					}
				}()
				begun := time.Now()
				err := <-ended
				took := time.Since(begun)
				assert.True(t, (err == nil) == test.whole && (test.whole || took <= time.Minute), "it ended after", took, err)
				near.Close()
				server.Close()
				serving.Wait()
			})
		})
	}
}
