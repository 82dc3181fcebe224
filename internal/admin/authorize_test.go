package admin_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/locked"
	"ndrbridge/test/require"
)

const readToken = "r3ader"

func TestTheTokenForReadingChangesNothing(t *testing.T) {
	c := newControl(t)
	c.status.Version = "1.2.3"
	o := handler(c)
	o.ReadToken = readToken
	server := newServer(t, o)
	for _, e := range endpoints {
		t.Run(e.method+" "+e.path, func(t *testing.T) {
			if e.path == "/api/v1/events" {
				return // it does not end
			}
			answer, body := request(t, e.method, server.URL+e.path, `{"all": true}`, readToken)
			if e.method == http.MethodGet {
				assert.True(t, answer.StatusCode != http.StatusForbidden && answer.StatusCode != http.StatusUnauthorized, answer.StatusCode, body)
				return
			}
			checkProblem(t, answer, body, http.StatusForbidden, "the token of admin.read_token can only read: this requires the token of admin.token or admin.token_file")
		})
	}
	assert.Empty(t, c.changes, "it changed")
	t.Run("the metrics can be read", func(t *testing.T) {
		answer, body := request(t, http.MethodGet, server.URL+"/metrics", "", readToken)
		assert.Equal(t, answer.StatusCode, http.StatusOK, body)
	})
	for _, test := range []struct {
		name, token string
		readOnly    bool
	}{
		{"the status says so", readToken, true},
		{"the status of who may change everything does not", token, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var status admin.Status
			answer, body := request(t, http.MethodGet, server.URL+"/api/v1/status", "", test.token)
			err := json.Unmarshal([]byte(body), &status)
			assert.True(t, err == nil && status.ReadOnly == test.readOnly, answer.StatusCode, body, err)
		})
	}
	t.Run("without one, an empty token reads nothing", func(t *testing.T) {
		answer, body := request(t, http.MethodGet, newServer(t, handler(c)).URL+"/api/v1/status", "", " ")
		checkProblem(t, answer, body, http.StatusUnauthorized, "admin.token")
	})
}

// serveTLS serves the admin interface by HTTPS and returns its address.
func serveTLS(t *testing.T, o admin.Options, files admin.TLS, log *slog.Logger) string {
	t.Helper()
	config := require.Value(files.Server(log))(t)
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := admin.NewServer(o)
	server.Handler, server.TLSConfig = checkAnswers(t, server.Handler), config
	server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(listener, "", "")
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return listener.Addr().String()
}

func TestTheInterfaceOverTLS(t *testing.T) {
	folder, soon := t.TempDir(), time.Now().Add(time.Hour)
	authority := certificate.New(t, "clients", soon, nil)
	authorityFile, _ := certificate.Files(t, folder, "clients", authority)
	own := certificate.New(t, "ndr.example", soon, nil)
	files := admin.TLS{ClientCAFile: authorityFile}
	files.CertFile, files.KeyFile = certificate.Files(t, folder, "own", own)

	o := handler(newControl(t))
	o.Token, o.ClientCertificates = "", true
	address := serveTLS(t, o, files, slog.New(slog.DiscardHandler))
	trusting := x509.NewCertPool()
	trusting.AddCert(own.Leaf)
	signed := certificate.New(t, "operator", soon, &authority)
	for _, test := range []struct {
		name   string
		config *tls.Config
		path   string
		status int    // 0: no answer
		detail string // of the problem, or of the error
	}{
		{"health needs no certificate", &tls.Config{}, "/healthz", http.StatusOK, ""},
		{"readiness needs no certificate", &tls.Config{}, "/readyz", http.StatusOK, ""},
		{"the page needs no certificate", &tls.Config{}, "/", http.StatusOK, ""},
		{"the API requires a certificate", &tls.Config{}, "/api/v1/status", http.StatusForbidden, "present a client certificate"},
		{"the metrics require a certificate", &tls.Config{}, "/metrics", http.StatusForbidden, "present a client certificate"},
		{"one that the authority has signed is accepted", &tls.Config{Certificates: []tls.Certificate{signed}}, "/api/v1/status", http.StatusOK, ""},
		{"one that is the server's own is accepted", &tls.Config{GetClientCertificate: always(own)}, "/api/v1/status", http.StatusOK, ""},
		{"one of another authority is refused", &tls.Config{GetClientCertificate: always(certificate.New(t, "operator", soon, nil))}, "/healthz", 0, "bad certificate"},
		{"one that has expired is refused", &tls.Config{GetClientCertificate: always(certificate.New(t, "operator", time.Now().Add(-time.Hour), &authority))}, "/healthz", 0, "bad certificate"},
		{"TLS 1.1 is refused", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "/healthz", 0, "protocol version"},
		{"HTTP/2 is not spoken", &tls.Config{NextProtos: []string{"h2", "http/1.1"}}, "/healthz", http.StatusOK, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.config.RootCAs, test.config.ServerName = trusting, "ndr.example"
			client := http.Client{Transport: &http.Transport{TLSClientConfig: test.config, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+test.path, nil)
			require.NoError(t, err)
			r.Host = "ndr.example"
			answer, err := client.Do(r)
			if test.status == 0 {
				if err == nil {
					_ = answer.Body.Close()
				}
				require.True(t, err != nil && strings.Contains(err.Error(), test.detail), "the error", err, test.detail)
				return
			}
			require.NoError(t, err)
			defer answer.Body.Close()
			assert.Equal(t, answer.StatusCode, test.status, answer.Proto, answer.Status)
			assert.Equal(t, answer.ProtoMajor, 1, answer.Proto, answer.Status)
			if test.detail != "" {
				var problem struct{ Detail string }
				err := json.NewDecoder(answer.Body).Decode(&problem)
				assert.True(t, err == nil && strings.Contains(problem.Detail, test.detail), problem.Detail, err, test.detail)
			}
		})
	}

	t.Run("the bridge's own client operates it", func(t *testing.T) {
		client := require.Value(admin.NewOwnClient(address, "", files))(t)
		assert.True(t, client.IsBridge(t.Context()), "it is not taken for a bridge")
		require.NoError(t, admin.API.PauseSink.Do(t.Context(), client, admin.OfSink{Sink: "lake"}))
	})
	t.Run("the bridge's own client refuses another certificate", func(t *testing.T) {
		other := admin.TLS{}
		other.CertFile, other.KeyFile = certificate.Files(t, t.TempDir(), "other", certificate.New(t, "ndr.example", soon, nil))
		client := require.Value(admin.NewOwnClient(address, "", other))(t)
		assert.ErrorContains(t, client.Health(t.Context()), "is not that of admin.tls.cert_file", "the error is")
	})
}

// always sends a certificate even if the server names other authorities.
func always(c tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
}

func TestRenewedCertificatesAreServed(t *testing.T) {
	folder, soon := t.TempDir(), time.Now().Add(time.Hour)
	first, second := certificate.New(t, "first", soon, nil), certificate.New(t, "second", soon, nil)
	var files admin.TLS
	files.CertFile, files.KeyFile = certificate.Files(t, folder, "own", first)
	var logged locked.Buffer
	address := serveTLS(t, handler(newControl(t)), files, slog.New(slog.NewTextHandler(&logged, nil)))
	served := func() string {
		t.Helper()
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	require.Equal(t, served(), "first", "it serves")
	later := time.Now().Add(time.Minute) // a file system may not tell two versions of a moment apart
	text, _ := certificate.PEM(t, second)
	require.NoError(t, os.WriteFile(files.CertFile, []byte(text), 0o600))
	require.NoError(t, os.Chtimes(files.CertFile, later, later))
	for range 2 {
		assert.Equal(t, served(), "first", "the certificate without its key")
	}
	assert.Equal(t, strings.Count(logged.String(), "cannot be used"), 1, "the mistake is logged", "times", logged.String())
	certificate.Files(t, folder, "own", second)
	later = later.Add(time.Minute)
	require.NoError(t, os.Chtimes(files.KeyFile, later, later))
	assert.Equal(t, served(), "second", "the certificate after the renewal")
}

func TestUnusableCertificatesAreErrors(t *testing.T) {
	folder, soon := t.TempDir(), time.Now().Add(time.Hour)
	certFile, keyFile := certificate.Files(t, folder, "own", certificate.New(t, "own", soon, nil))
	_, otherKey := certificate.Files(t, folder, "other", certificate.New(t, "other", soon, nil))
	none := filepath.Join(folder, "none.pem")
	for _, test := range []struct {
		name  string
		files admin.TLS
		want  string
	}{
		{"a certificate that is not there", admin.TLS{CertFile: none, KeyFile: keyFile}, "admin.tls.cert_file: " + none + ": no such file"},
		{"a key that is not there", admin.TLS{CertFile: certFile, KeyFile: none}, "admin.tls.key_file: " + none + ": no such file"},
		{"the key of another certificate", admin.TLS{CertFile: certFile, KeyFile: otherKey}, "private key does not match"},
		{"authorities that are not there", admin.TLS{CertFile: certFile, KeyFile: keyFile, ClientCAFile: none}, "admin.tls.client_ca_file: " + none + ": no such file"},
		{"a key for authorities", admin.TLS{CertFile: certFile, KeyFile: keyFile, ClientCAFile: keyFile}, "contains no PEM certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.files.Server(slog.New(slog.DiscardHandler))
			assert.True(t, err != nil && strings.Contains(err.Error(), test.want), "the error", err, test.want)
		})
	}
}

// TestSilentConnectionsOverTLSAreClosed opens more connections than are allowed without a
// handshake. An operator is served all the same.
func TestSilentConnectionsOverTLSAreClosed(t *testing.T) {
	var files admin.TLS
	files.CertFile, files.KeyFile = certificate.Files(t, t.TempDir(), "own", certificate.New(t, "own", time.Now().Add(time.Hour), nil))
	address := serveTLS(t, handler(newControl(t)), files, slog.New(slog.DiscardHandler))
	for range 250 {
		conn := require.Value(net.Dial("tcp", address))(t)
		t.Cleanup(func() { _ = conn.Close() })
	}
	client := require.Value(admin.NewOwnClient(address, token, files))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := client.Status(ctx)
	assert.NoError(t, err)
}
