package webhook_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// talk serves raw connections: it reads the request's header, and leaves the
// rest to serve. It returns its address.
func talk(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	return loopback.Serve(t, func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			serve(conn)
		}
	})
}

// resets starts a listener that resets every connection immediately, and returns its
// address.
func resets(t *testing.T) string {
	t.Helper()
	return loopback.Serve(t, func(conn net.Conn) { conn.(*net.TCPConn).SetLinger(0) })
}

func TestNetworkFailuresAreTransient(t *testing.T) {
	closed := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed.Close()
	for _, test := range []struct {
		name string
		addr string
		want string // part of the error
	}{
		{"nobody listens", closed.Addr().String(), "refuses connections; nothing listens there"},
		{"the name does not resolve", "no-such-host.invalid", "no-such-host.invalid"},
		{"the server hangs up without an answer", talk(t, func(net.Conn) {}), ""},
		{"the server resets the connection before it reads", resets(t), ""},
		{"the server resets the connection when it has read the header", talk(t, func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }), ""},
		{"the server resets the connection when it has read the request", talk(t, func(c net.Conn) {
			c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // long after it came
			io.Copy(io.Discard, c)
			c.(*net.TCPConn).SetLinger(0)
		}), ""},
		{"the server answers half a header", talk(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nDate: now\r\n") }), "unexpected EOF"},
		{"the server answers something else", talk(t, func(c net.Conn) { fmt.Fprint(c, "220 mail.example ESMTP\r\n") }), "malformed"},
		{"the server answers nothing in time", talk(t, func(c net.Conn) { io.Copy(io.Discard, c) }), "no answer within 300ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			timeout := 5 * time.Second
			if strings.HasPrefix(test.want, "no answer within") {
				timeout = 300 * time.Millisecond
			}
			s := open(t, webhook.Options{URL: "http://" + test.addr + "/hooks/s3cret?token=s3cret", Mode: transform.Batch, Timeout: timeout})
			err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
			sinktest.ExpectFailure(t, err, failure.Transient, test.want, "http://"+test.addr)
			sinktest.ExpectHidden(t, err, "s3cret")
		})
	}
}

func TestAnAcknowledgementCountsWhateverFollowsIt(t *testing.T) {
	for _, test := range []struct{ name, answer string }{
		{"a body cut short", "HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\nok"},
		{"a body that is not chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"},
		{"an early hint before it", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			addr := talk(t, func(c net.Conn) { fmt.Fprint(c, test.answer) })
			assert.NoError(t, open(t, webhook.Options{URL: "http://" + addr}).Send(t.Context(), sinktest.Events(1, 1, 0)))
		})
	}
	t.Run("a switch of protocols is none", func(t *testing.T) {
		addr := talk(t, func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
			io.Copy(io.Discard, c)
		})
		err := open(t, webhook.Options{URL: "http://" + addr, Mode: transform.Batch}).Send(t.Context(), sinktest.Events(1, 1, 0))
		sinktest.ExpectFailure(t, err, failure.Transient, "101")
	})
}

func TestTheCallersContextEndsASend(t *testing.T) {
	addr := talk(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	s := open(t, webhook.Options{URL: "http://" + addr, Mode: transform.Batch})
	t.Run("by its deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := s.Send(ctx, sinktest.Events(1, 1, 0))
		class, _ := failure.ClassOf(err)
		assert.True(t, errors.Is(err, context.DeadlineExceeded) && class == failure.Transient, "class", class, err)
	})
	t.Run("by a cancel with a cause", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("shutdown")) })
		defer stop.Stop()
		err := s.Send(ctx, sinktest.Events(1, 1, 0))
		class, _ := failure.ClassOf(err)
		assert.True(t, errors.Is(err, context.Canceled) && class == failure.Transient, "class", class, err)
	})
}

// secure starts a receiver that speaks HTTP/2 over TLS.
func secure(t *testing.T, config *tls.Config) *receiver {
	r := newReceiver(t)
	r.server.EnableHTTP2 = true
	r.server.TLS = config
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.server.StartTLS()
	return r
}

// trusted returns the configuration of a client that trusts a receiver.
func trusted(r *receiver) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(r.server.Certificate())
	return &tls.Config{RootCAs: pool}
}

func TestTLS(t *testing.T) {
	t.Run("events go over HTTP/2 in one connection", func(t *testing.T) {
		for _, mode := range modes {
			r := secure(t, nil)
			var protocols []string
			s := open(t, webhook.Options{URL: r.server.URL, Mode: mode, TLS: trusted(r)})
			require.NoError(t, s.Send(t.Context(), sinktest.Awkward()))
			assert.Equal(t, len(require.Value(r.received())(t)), len(sinktest.Awkward()), "events")
			r.answers(func(_ http.ResponseWriter, request *http.Request) { protocols = append(protocols, request.Proto) })
			require.NoError(t, s.Send(t.Context(), sinktest.Events(1, 1, 0)))
			assert.Equal(t, fmt.Sprint(protocols), "[HTTP/2.0]", protocols)
			assert.Equal(t, r.connections(), 1, protocols, "connections")
		}
	})

	plain := newReceiver(t).start()
	good := secure(t, nil)
	clients := secure(t, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: tls.VersionTLS12})
	old := secure(t, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	elsewhere := trusted(good)
	elsewhere.ServerName = "elsewhere.example"
	later := trusted(good)
	later.Time = func() time.Time { return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, test := range []struct {
		name   string
		url    string
		tls    *tls.Config
		advice string
	}{
		{"an authority that nobody knows", good.server.URL, nil, "tls.ca_file"},
		{"a certificate of another name", good.server.URL, elsewhere, "tls.server_name"},
		{"a certificate that has expired", good.server.URL, later, "renew the certificate"},
		{"a server that requires a certificate", clients.server.URL, trusted(clients), "tls.cert_file"},
		{"a server that speaks old versions alone", old.server.URL, trusted(old), "tls"},
		{"a server that does not speak TLS", strings.Replace(plain.server.URL, "http:", "https:", 1), nil, "speaks HTTP instead of TLS"},
	} {
		t.Run(test.name+" halts", func(t *testing.T) {
			s := open(t, webhook.Options{URL: test.url + "/s3cret", Bearer: "s3cret", TLS: test.tls, Mode: transform.Batch})
			err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
			sinktest.ExpectFailure(t, err, failure.Halted, test.advice)
			sinktest.ExpectHidden(t, err, "s3cret")
		})
	}
}

func TestAServerThatRequiresACertificateHaltsSoon(t *testing.T) {
	// In TLS 1.3 the alert arrives after the client has completed the handshake. It
	// may be lost if the connection is reset: then the failure is transient, and the
	// sink sends again.
	r := secure(t, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert})
	s := open(t, webhook.Options{URL: r.server.URL, TLS: trusted(r), Mode: transform.Batch})
	for range 100 {
		err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
		require.True(t, err != nil, "no")
		if class, _ := failure.ClassOf(err); class == failure.Halted && strings.Contains(err.Error(), "tls.cert_file") {
			return
		}
	}
	t.Error("100 failures, and no halt")
}

func TestProxies(t *testing.T) {
	target := secure(t, nil)
	proxy := func(t *testing.T, serve http.HandlerFunc) *url.URL {
		server := httptest.NewServer(serve)
		t.Cleanup(server.Close)
		u, _ := url.Parse(server.URL)
		u.User = url.UserPassword("bridge", "pr0xysecret")
		return u
	}
	t.Run("a tunnel carries the events", func(t *testing.T) {
		through := proxy(t, func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth(); r.Method != http.MethodConnect || user != "bridge" || password != "pr0xysecret" {
				w.WriteHeader(http.StatusProxyAuthRequired)
				return
			}
			server, err := net.Dial("tcp", r.Host)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			client, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			fmt.Fprint(client, "HTTP/1.1 200 OK\r\n\r\n")
			go func() {
				io.Copy(server, buffered)
				server.Close()
			}()
			io.Copy(client, server)
			client.Close()
		})
		s := open(t, webhook.Options{URL: target.server.URL, Proxy: through, TLS: trusted(target)})
		assert.NoError(t, s.Send(t.Context(), sinktest.Events(3, 3, 0)))
		assert.Equal(t, len(require.Value(target.received())(t)), 3, "events")
	})
	for status, want := range map[int]failure.Class{
		400: failure.Halted, 403: failure.Halted, 407: failure.Halted, 413: failure.Halted, 429: failure.Transient, 502: failure.Transient, 504: failure.Transient,
	} {
		t.Run(fmt.Sprintf("a proxy that answers %d to CONNECT: %s", status, want), func(t *testing.T) {
			refusing := proxy(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
			s := open(t, webhook.Options{URL: target.server.URL, Proxy: refusing, Mode: transform.Batch})
			err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
			sinktest.ExpectFailure(t, err, want, fmt.Sprint(status))
			sinktest.ExpectHidden(t, err, "pr0xysecret")
		})
	}
}

// resolve has every name that the test looks up lead to an address.
func resolve(t *testing.T, to netip.Addr) {
	server := require.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(answerQuery(query[:n], to), from)
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		server.Close()
		<-done
	})
}

// answerQuery answers a DNS query (RFC 1035, section 4) with the address if the type
// matches, and otherwise with no record.
func answerQuery(query []byte, to netip.Addr) []byte {
	const header, ipv4, ipv6 = 12, 1, 28
	question := query[header:]
	question = question[:slices.Index(question, 0)+1+4]
	kind := binary.BigEndian.Uint16(question[len(question)-4:])
	message := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	if kind == ipv4 && to.Is4() || kind == ipv6 && !to.Is4() {
		message[7] = 1
		message = append(message, 0xc0, header)
		message = binary.BigEndian.AppendUint16(message, kind)
		message = append(message, 0, 1, 0, 0, 0, 60, 0, byte(to.BitLen()/8))
		message = append(message, to.AsSlice()...)
	}
	return message
}

func TestLinkLocalAndMetadataAddressesAreNotConnectedTo(t *testing.T) {
	for _, test := range []struct {
		name, host string
		leads      string // what the host's name leads to
	}{
		{"where clouds keep credentials", "169.254.169.254", ""},
		{"another link-local address", "169.254.1.1:8080", ""},
		{"an IPv4 address within IPv6", "[::ffff:169.254.169.254]", ""},
		{"the same in another spelling", "[::ffff:a9fe:a9fe]:80", ""},
		{"a link-local address of IPv6", "[fe80::1%25lo]", ""},
		{"where AWS keeps credentials in IPv6", "[fd00:ec2::254]", ""},
		{"where Google does", "[fd20:ce::254]", ""},
		{"where Alibaba does", "100.100.100.200", ""},
		{"a name that leads to one", "hooks.example", "169.254.169.254"},
		{"a name that leads to one of IPv6", "hooks.example:8443", "fd00:ec2::254"},
		{"a name that leads to one of IPv4 within IPv6", "hooks.example", "::ffff:169.254.169.254"},
	} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(test.name+" by "+scheme, func(t *testing.T) {
				if test.leads != "" {
					resolve(t, netip.MustParseAddr(test.leads))
				}
				s := open(t, webhook.Options{URL: scheme + "://" + test.host + "/latest/s3cret", Mode: transform.Batch})
				err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
				sinktest.ExpectFailure(t, err, failure.Halted, "allow_link_local")
				sinktest.ExpectHidden(t, err, "s3cret")
			})
		}
	}
	t.Run("the proxy's address is checked instead of the target's", func(t *testing.T) {
		proxy := &url.URL{Scheme: "http", Host: "169.254.169.254:3128", User: url.UserPassword("u", "s3cret")}
		err := open(t, webhook.Options{URL: "https://hooks.example", Proxy: proxy, Mode: transform.Batch}).Send(t.Context(), sinktest.Events(1, 1, 0))
		sinktest.ExpectFailure(t, err, failure.Halted, "allow_link_local")
	})
	t.Run("they are where that is allowed", func(t *testing.T) {
		// Whether the connection succeeds does not matter: it is attempted.
		s := open(t, webhook.Options{URL: "http://169.254.1.1:9", AllowLinkLocal: true, Mode: transform.Batch, Timeout: 50 * time.Millisecond})
		err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
		assert.True(t, err == nil || !strings.Contains(err.Error(), "allow_link_local"), err)
	})
	t.Run("a name that leads elsewhere is connected to", func(t *testing.T) {
		r := newReceiver(t).start()
		_, port, _ := net.SplitHostPort(r.server.Listener.Addr().String())
		resolve(t, netip.MustParseAddr("127.0.0.1"))
		assert.NoError(t, open(t, webhook.Options{URL: "http://hooks.example:" + port}).Send(t.Context(), sinktest.Events(1, 1, 0)))
	})
}
