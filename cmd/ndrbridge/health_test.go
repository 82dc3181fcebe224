package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/admin"
	"ndrbridge/cmd/internal/commandline"
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

	at := strings.TrimPrefix(lives.URL, "http://")
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ndrbridge.yaml")
	if err := os.WriteFile(file, []byte("colour: red\nadmin: {listen: '"+at+"', token_file: /nowhere}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		{"nothing listens", []string{"--admin", closed.URL}, nil, 1, "connect"},
		{"something else listens", []string{"--admin", ails.URL}, nil, 1, "answered 404"},
		{"a bridge that hangs", []string{"--admin", hangs.URL, "--timeout", "20ms"}, nil, 1, "deadline exceeded"},
		{"a file that is not there", []string{"--config", file + ".none"}, nil, 1, "none"},
		{"an address that is none", []string{"--admin", "9600"}, nil, 2, "--admin"},
		{"no time to answer in", []string{"--timeout", "0s"}, nil, 2, "--timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			command := &command{environ: c.environ, stdout: &stdout, stderr: &stderr}
			exit := commandline.Run(t.Context(), command.root(), append([]string{"health"}, c.args...), &stdout, &stderr)
			if exit != c.exit || !strings.Contains(stderr.String(), c.stderr) || stdout.Len() > 0 || exit == 0 && stderr.Len() > 0 {
				t.Errorf("exit %d, want %d, %s%s", exit, c.exit, &stdout, &stderr)
			}
		})
	}
}
