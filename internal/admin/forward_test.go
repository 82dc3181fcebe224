package admin_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// owner is the member that owns the log of a cluster: a bridge that records the requests to it.
type owner struct {
	*control
	*httptest.Server

	mu       sync.Mutex
	requests []*http.Request
}

// serveOwner serves an owner with options.
func serveOwner(t *testing.T, c *control, o admin.Options) *owner {
	t.Helper()
	own := &owner{control: c}
	next := checkAnswers(t, admin.NewHandler(o))
	own.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own.mu.Lock()
		own.requests = append(own.requests, r.Clone(context.Background()))
		own.mu.Unlock()
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(own.Close)
	return own
}

// asked returns the requests since the last call.
func (o *owner) asked() []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := o.requests
	o.requests = nil
	return asked
}

// at returns a function for admin.Options.Owner: the owner has an address.
func at(url string) func() (string, bool, string) {
	return func() (string, bool, string) { return url, false, "" }
}

// optionsOfStandby returns the options of a member that does not own the log.
func optionsOfStandby(whose func() (string, bool, string)) admin.Options {
	all := (&cluster{state: twoMembers}).operations()
	admin.API.Reload.By(all, func(context.Context, admin.None) (admin.Reloaded, error) { return admin.Reloaded{}, nil })
	o := handlerOf(admin.NewLocal(all))
	o.Member, o.Owner = "b", whose
	return o
}

func TestAMemberForwardsToTheOwner(t *testing.T) {
	c := newControl(t)
	own := serveOwner(t, c, handler(c))
	server := newServer(t, optionsOfStandby(at(own.URL)))
	local := []string{"GET /api/v1/cluster", "POST /api/v1/cluster/recover", "POST /api/v1/reload"}
	for _, e := range endpoints {
		name := e.method + " " + e.path
		if e.path == "/api/v1/events" {
			continue // it does not end
		}
		t.Run(name, func(t *testing.T) {
			if e.path == "/api/v1/tickets/jira" {
				return // the member has to know the webhook
			}
			body := ""
			if e.method == http.MethodPost && !slices.Contains([]string{"pause", "resume", "backup", "reload", "retry", "handover"}, e.path[strings.LastIndex(e.path, "/")+1:]) {
				body = `{"from": "b"}`
			}
			answer, text := send(t, e.method, server.URL+e.path+"?", body, "Authorization", "Bearer "+token, "X-Request-Id", "17", "Origin", "http://"+server.Listener.Addr().String())
			asked := own.asked()
			if slices.Contains(local, name) {
				assert.True(t, len(asked) == 0 && answer.StatusCode/100 == 2, answer.StatusCode, text, "and the owner", len(asked), "requests")
				return
			}
			require.Equal(t, len(asked), 1, "requests to the owner")
			got := asked[0]
			assert.True(t, got.Method == e.method && got.URL.Path == e.path && got.Host == own.Listener.Addr().String(), "the owner", got.Method, got.URL, got.Host)
			assert.True(t, got.Header.Get("Authorization") == "Bearer "+token && got.Header.Get("X-Request-Id") == "17" && got.Header.Get("Ndr-Forwarded-By") == "b", got.Header)
			servers := answer.Header.Values("Server")
			assert.True(t, answer.StatusCode != http.StatusForbidden && slices.Equal(servers, []string{"ndrbridge"}), answer.StatusCode, "Server", servers, text)
		})
	}
	for _, path := range []string{"/", "/page/main.js", "/healthz", "/readyz", "/metrics", "/api/v1/openapi.json"} {
		t.Run("GET "+path, func(t *testing.T) {
			answer, body := request(t, http.MethodGet, server.URL+path, "", token)
			asked := own.asked()
			assert.True(t, len(asked) == 0 && answer.StatusCode == http.StatusOK, answer.StatusCode, body, "and the owner", len(asked), "requests")
		})
	}
	t.Run("an answer is that of the owner", func(t *testing.T) {
		answer, body := request(t, http.MethodPost, server.URL+"/api/v1/sinks/none/pause", "", token)
		checkProblem(t, answer, body, http.StatusNotFound, "unknown")
	})
	t.Run("a body that is too large is refused", func(t *testing.T) {
		own.asked()
		answer, body := request(t, http.MethodPost, server.URL+"/api/v1/rewind", strings.Repeat(" ", 1<<20+1), token)
		checkProblem(t, answer, body, http.StatusRequestEntityTooLarge, "larger than 1048576 bytes")
		assert.Empty(t, own.asked(), "the owner got it")
	})
}

func TestAMemberForwardsNothingUnauthorized(t *testing.T) {
	c := newControl(t)
	own := serveOwner(t, c, handler(c))
	o := optionsOfStandby(at(own.URL))
	o.ReadToken = readToken
	server := newServer(t, o)
	for _, test := range []struct {
		name, method, path, authorization string
		status                            int
	}{
		{"without a token", http.MethodGet, "/api/v1/status", "", http.StatusUnauthorized},
		{"with a wrong token", http.MethodGet, "/api/v1/status", "Bearer other", http.StatusUnauthorized},
		{"a change with the token for reading", http.MethodPost, "/api/v1/sinks/lake/pause", "Bearer " + readToken, http.StatusForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer, body := send(t, test.method, server.URL+test.path, "", "Authorization", test.authorization)
			asked := own.asked()
			assert.True(t, answer.StatusCode == test.status && len(asked) == 0, answer.StatusCode, body, "and the owner", len(asked), "requests")
		})
	}
	t.Run("and the owner checks the token, too", func(t *testing.T) {
		answer, body := request(t, http.MethodGet, server.URL+"/api/v1/status", "", readToken)
		checkProblem(t, answer, body, http.StatusUnauthorized, "admin.token")
	})
}

// answerWith returns the URL of a server that answers each connection with a text, and closes it.
func answerWith(t *testing.T, text string) string {
	t.Helper()
	l := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4<<10))
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestARequestThatCannotBeForwarded(t *testing.T) {
	garbage, silent := answerWith(t, "\x16\x03garbage\r\n\r\n"), answerWith(t, "")
	serveText := func(status int, headers ...string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte("hello"))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	for _, test := range []struct {
		name, url, why string
		forwarded      string // Ndr-Forwarded-By
		detail         string
	}{
		{name: "without an owner", why: "no member owns the log", detail: "no member owns the log"},
		{name: "that was forwarded", url: "http://127.0.0.1:1", forwarded: "c", detail: `member "c" forwarded this request to a member that does not own the log`},
		{name: "to no address", url: "bridge-1", detail: `has the address "bridge-1", which is no URL with http or https and a host: set its admin.advertise`},
		{name: "to no host", url: "http://:9600", detail: `has the address "http://:9600", which is no URL with http`},
		{name: "to a file", url: "file://bridge-1/etc/passwd", detail: `has the address "file://bridge-1/etc/passwd", which is no URL with http`},
		{name: "to another protocol", url: "ftp://bridge-1", detail: `has the address "ftp://bridge-1", which is no URL with http`},
		{name: "to an address at which nothing listens", url: "http://127.0.0.1:1", detail: "the owner of the log at 127.0.0.1:1 cannot be asked: dial tcp 127.0.0.1:1: connect: connection refused"},
		{name: "to something that does not use HTTP", url: garbage, detail: "malformed HTTP response"},
		{name: "to something that closes the connection", url: silent, detail: "EOF"},
		{name: "to another program", url: serveText(http.StatusOK), detail: "what answers there (200 OK) is no bridge; check admin.advertise of the owner"},
		{name: "to something that redirects", url: serveText(http.StatusFound, "Server", "ndrbridge", "Location", "http://127.0.0.1:1/"), detail: "what answers there (302 Found) is no bridge"},
		{name: "to something with a huge header", url: serveText(http.StatusOK, "X", strings.Repeat("x", 100<<10)), detail: "exceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newServer(t, optionsOfStandby(func() (string, bool, string) { return test.url, false, test.why }))
			answer, body := send(t, http.MethodGet, server.URL+"/api/v1/status", "", "Authorization", "Bearer "+token, "Ndr-Forwarded-By", test.forwarded)
			checkProblem(t, answer, body, http.StatusServiceUnavailable, test.detail)
			assert.Equal(t, answer.Header.Get("Retry-After"), "1", "Retry-After")
		})
	}
	t.Run("at the owner itself is carried out", func(t *testing.T) {
		o := handler(newControl(t))
		o.Owner = func() (string, bool, string) { return "", true, "" }
		answer, body := send(t, http.MethodGet, newServer(t, o).URL+"/api/v1/status", "", "Authorization", "Bearer "+token, "Ndr-Forwarded-By", "b")
		assert.Equal(t, answer.StatusCode, http.StatusOK, body)
	})
}

func TestStreamsAreForwarded(t *testing.T) {
	c := newControl(t)
	c.journal(t, 5, `{}`)
	own := serveOwner(t, c, handler(c))
	client, server := serveWith(t, optionsOfStandby(at(own.URL)))
	t.Run("events come at once", func(t *testing.T) {
		var got []string
		err := client.Tail(t.Context(), admin.From{Last: 2, Live: func() error {
			c.journal(t, 1, `{}`)
			return nil
		}}, func(e transform.Event) error {
			if got = append(got, e.ID); e.ID == "6" {
				return io.EOF
			}
			return nil
		})
		want := []string{"4", "5", "6"}
		assert.True(t, errors.Is(err, io.EOF) && slices.Equal(got, want), got, err, want)
	})
	t.Run("a copy of the state is complete", func(t *testing.T) {
		var copied, direct bytes.Buffer
		require.NoError(t, client.Backup(t.Context(), &copied))
		ofOwner := require.Value(admin.NewClient(own.URL, token))(t)
		require.NoError(t, ofOwner.Backup(t.Context(), &direct))
		assert.True(t, bytes.Equal(copied.Bytes(), direct.Bytes()), copied.Len(), "bytes, and", direct.Len(), "of the owner")
	})
	t.Run("a copy that breaks off is none", func(t *testing.T) {
		c.backup = func(w io.Writer) error {
			_, err := w.Write(make([]byte, 1<<20))
			return errors.Join(err, errors.New("the disk failed"))
		}
		assert.ErrorIs(t, client.Backup(t.Context(), io.Discard), io.ErrUnexpectedEOF)
	})
	t.Run("a copy for HTTP/1.0 is refused", func(t *testing.T) {
		conn := dial(t, server.Listener.Addr().String(), "POST /api/v1/backup HTTP/1.0\r\nAuthorization: Bearer "+token+"\r\n\r\n")
		assert.True(t, strings.HasPrefix(string(require.Value(io.ReadAll(conn))(t)), "HTTP/1.0 505 "))
	})
}

func TestWebhooksAreForwarded(t *testing.T) {
	c := newControl(t)
	o := withIntakes(t, c, readSecret)
	own := serveOwner(t, c, o)
	standby := optionsOfStandby(at(own.URL))
	standby.Tickets = func() admin.Tickets { return admin.Tickets{Webhooks: o.Tickets().Webhooks} }
	metrics := prometheus.NewRegistry()
	standby.Guesses = admin.NewGuesses(metrics, slog.New(slog.DiscardHandler))
	server := newServer(t, standby)
	url, body := server.URL+"/api/v1/tickets/jira?user=x", issue("done", "someone")
	t.Run("with the secret of the ticket system", func(t *testing.T) {
		answer, text := send(t, http.MethodPost, url, body, "X-Hub-Signature", signature(body))
		got := accepted(t, answer, text)
		assert.True(t, len(got.Commands) == 1 && answer.Header.Get("Location") == "/api/v1/tickets/1", got, answer.Header.Get("Location"))
		commands := c.commands(t)
		assert.True(t, len(commands) == 1 && commands[0].Subject == "SEC-1", "the owner stored", commands)
	})
	t.Run("with a token", func(t *testing.T) {
		answer, text := request(t, http.MethodPost, server.URL+"/api/v1/tickets/otrs", `{"ticket_id": "SEC-2", "status": "closed"}`, token)
		accepted(t, answer, text)
	})
	t.Run("wrong secrets do not reach the owner", func(t *testing.T) {
		own.asked()
		for range 150 {
			answer, _ := send(t, http.MethodPost, url, body, "X-Hub-Signature", "sha256="+strings.Repeat("0", 64))
			require.True(t, answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusTooManyRequests, answer.Status)
		}
		n := len(own.asked())
		assert.True(t, n <= 0, "the owner", n, "requests")
		answer, text := send(t, http.MethodPost, own.URL+"/api/v1/tickets/jira", body, "X-Hub-Signature", signature(body))
		accepted(t, answer, text)
	})
	t.Run("one that is not known", func(t *testing.T) {
		answer, text := request(t, http.MethodPost, server.URL+"/api/v1/tickets/none", "{}", token)
		checkProblem(t, answer, text, http.StatusNotFound, "it has jira, otrs")
	})
}

// addAuthority appends the certificate of an authority to a file.
func addAuthority(t *testing.T, file string, authority tls.Certificate) {
	t.Helper()
	own := require.Value(os.ReadFile(file))(t)
	text, _ := certificate.PEM(t, authority)
	require.NoError(t, os.WriteFile(file, append(own, text...), 0o600))
}

func TestMembersForwardOverTLS(t *testing.T) {
	folder, soon := t.TempDir(), time.Now().Add(time.Hour)
	authority := certificate.New(t, "authority", soon, nil)
	authorityFile, _ := certificate.Files(t, folder, "authority", authority)
	files := func(name string, parent *tls.Certificate) (f admin.TLS) {
		f.ClientCAFile = authorityFile
		f.CertFile, f.KeyFile = certificate.Files(t, folder, name, certificate.New(t, "localhost", soon, parent))
		return f
	}
	shared := files("shared", nil)
	c := newControl(t)
	o := handler(c)
	o.ClientCertificates = true
	address := serveTLS(t, o, shared, slog.New(slog.DiscardHandler))
	port := address[strings.LastIndex(address, ":"):]
	noClient := shared
	noClient.ClientCAFile = ""
	withAuthority := files("other", &authority)
	addAuthority(t, withAuthority.CertFile, authority)
	ofAuthority := files("of-authority", &authority)
	addAuthority(t, ofAuthority.CertFile, authority)
	signedAddress := serveTLS(t, o, ofAuthority, slog.New(slog.DiscardHandler))
	signedPort := signedAddress[strings.LastIndex(signedAddress, ":"):]
	for _, test := range []struct {
		name, url string
		files     admin.TLS
		status    int
		detail    string
	}{
		{"a certificate that all members share", "https://localhost" + port, shared, http.StatusOK, ""},
		{"certificates that one authority has signed", "https://localhost" + signedPort, withAuthority, http.StatusOK, ""},
		{"without a client certificate", "https://localhost" + port, noClient, http.StatusForbidden, "present a client certificate"},
		{"another certificate", "https://localhost" + port, files("another", nil), http.StatusServiceUnavailable, "an authority of this system must have signed its certificate for that name, or admin.tls.cert_file of this member must have it"},
		{"another name", "https://127.0.0.1" + port, shared, http.StatusServiceUnavailable, "for that name"},
		{"without TLS", "http://localhost" + port, shared, http.StatusServiceUnavailable, "is no bridge"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := optionsOfStandby(at(test.url))
			o.TLS = test.files
			answer, body := request(t, http.MethodGet, newServer(t, o).URL+"/api/v1/status", "", token)
			assert.True(t, answer.StatusCode == test.status && strings.Contains(body, test.detail), answer.StatusCode, body, test.status, test.detail)
		})
	}
}

func TestForwardedRequestsAreLimited(t *testing.T) {
	c := newControl(t)
	hang, begun := make(chan struct{}), make(chan struct{}, 100)
	all := make(admin.Operations)
	admin.API.RetryTicketCommand.By(all, func(context.Context, admin.OfCommand) error {
		begun <- struct{}{}
		<-hang
		return nil
	})
	own := serveOwner(t, c, handlerOf(c.client().With(all)))
	server := newServer(t, optionsOfStandby(at(own.URL)))
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer close(hang)
	const most = 48
	for range most {
		waiting.Go(func() { request(t, http.MethodPost, server.URL+"/api/v1/tickets/1/retry", "", token) })
		<-begun
	}
	answer, body := request(t, http.MethodGet, server.URL+"/api/v1/status", "", token)
	checkProblem(t, answer, body, http.StatusServiceUnavailable, "too many requests are being forwarded")
	answer, body = request(t, http.MethodGet, server.URL+"/api/v1/cluster", "", token)
	assert.Equal(t, answer.StatusCode, http.StatusOK, body)
}
