package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/internal/admin"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

func TestHealthExitCode(t *testing.T) {
	// The real interface, with a token, of a bridge that has yet to open its state.
	lives := httptest.NewServer(admin.NewHandler(admin.Options{
		Token: "s3cret", Metrics: prometheus.NewRegistry(),
		NotReady: func() []string { return []string{"the state is being opened"} },
	}))
	t.Cleanup(lives.Close)
	ails := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(ails.Close)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hangs.Close)
	closed := httptest.NewServer(nil)
	closed.Close()

	secure := httptest.NewTLSServer(lives.Config.Handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(secure.Close)
	certFile, keyFile := certificate.Files(t, t.TempDir(), "tls", secure.TLS.Certificates[0])
	ofTLS := []string{"NDRBRIDGE_ADMIN_LISTEN=" + strings.TrimPrefix(secure.URL, "https://"), "NDRBRIDGE_ADMIN_TLS_CERT_FILE=" + certFile, "NDRBRIDGE_ADMIN_TLS_KEY_FILE=" + keyFile}

	at := strings.TrimPrefix(lives.URL, "http://")
	_, port, err := net.SplitHostPort(at)
	require.NoError(t, err)
	file := writeFile(t, "ndrbridge.yaml", "colour: red\nadmin: {listen: '"+at+"', token_file: /nowhere}\n", 0o600)
	for _, c := range []struct {
		name    string
		args    []string
		environ []string
		exit    int
		stderr  string
	}{
		{"a bridge that lives", []string{"--admin", lives.URL}, nil, 0, ""},
		{"the file has its address, whatever is wrong with the rest", []string{"--config", file}, nil, 0, ""},
		{"the environment has its address", nil, []string{"NDRBRIDGE_ADMIN_LISTEN=" + at}, 0, ""},
		{"one that listens on every address is asked at this machine's", nil, []string{"NDRBRIDGE_ADMIN_LISTEN=:" + port}, 0, ""},
		{"one that serves HTTPS is known by its certificate", nil, ofTLS, 0, ""},
		{"one that serves HTTPS, and the authorities are given", []string{"--admin", secure.URL, "--ca-file", certFile}, nil, 0, ""},
		{"one that serves HTTPS, and a client certificate is given", []string{"--admin", secure.URL, "--ca-file", certFile, "--cert-file", certFile, "--key-file", keyFile}, nil, 0, ""},
		{"one whose certificate the system does not trust", []string{"--admin", secure.URL}, nil, 1, "certificate signed by unknown authority; give a PEM file with its certificate, or that of its authority, with --ca-file"},
		{"one that serves HTTPS, and its address has http", []string{"--admin", "http://" + strings.TrimPrefix(secure.URL, "https://")}, nil, 1, "requires TLS: write https:// instead of http://"},
		{"one that does not serve HTTPS, and its address has https", []string{"--admin", "https://" + at}, nil, 1, "does not use TLS: write http:// instead of https://"},
		{"authorities that are none", []string{"--admin", secure.URL, "--ca-file", keyFile}, nil, 1, "--ca-file: " + keyFile + " contains no PEM certificate"},
		{"a client certificate without its key", []string{"--admin", secure.URL, "--cert-file", certFile}, nil, 2, "--cert-file and --key-file must be given together"},
		{"a client certificate that is not there", []string{"--admin", secure.URL, "--cert-file", certFile + ".none", "--key-file", keyFile}, nil, 1, "--cert-file: " + certFile + ".none: no such file"},
		{"authorities for an address without https", []string{"--admin", lives.URL, "--ca-file", certFile}, nil, 2, "require an address with https"},
		{"authorities without an address", []string{"--ca-file", certFile}, ofTLS, 2, "require --admin; otherwise admin.tls of the configuration is used"},
		{"nothing listens", []string{"--admin", closed.URL}, nil, 1, "connect"},
		{"something else listens", []string{"--admin", ails.URL}, nil, 1, "answered 404"},
		{"a bridge that hangs", []string{"--admin", hangs.URL, "--timeout", "20ms"}, nil, 1, "deadline exceeded"},
		{"a file that is not there", []string{"--config", file + ".none"}, nil, 78, "none"},
		{"an address that is none", []string{"--admin", "9600"}, nil, 2, "--admin"},
		{"no time to answer in", []string{"--timeout", "0s"}, nil, 2, "--timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			exit, stdout, stderr := (&command{environ: c.environ}).try(t, "", append([]string{"status", "--exit-code"}, c.args...)...)
			if exit != c.exit || !strings.Contains(stderr, c.stderr) || stdout != "" || exit == 0 && stderr != "" {
				t.Errorf("exit %d, want %d, %s%s", exit, c.exit, stdout, stderr)
			}
		})
	}
}
