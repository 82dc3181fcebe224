package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/cmd/internal/commandline"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// started is a run of the command that serves.
type started struct {
	t      *testing.T
	url    string
	client *http.Client
	stop   func() (code int, stderr string)
}

func start(t *testing.T, args ...string) *started {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, args, stdout, &stderr)
		stdout.Close()
	}()
	s := &started{t: t, client: &http.Client{Transport: &http.Transport{}}, stop: func() (int, string) {
		cancel()
		return <-code, stderr.String()
	}}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("it ended with %d: %s", <-code, stderr.String())
	}
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	t.Cleanup(s.client.CloseIdleConnections)
	t.Cleanup(cancel)
	return s
}

func (s *started) get(authorization, path string) (int, string) {
	s.t.Helper()
	return s.send("GET", authorization, path, "")
}

func (s *started) send(method, authorization, path, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/api/v1"+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", authorization)
	resp := require.Value(s.client.Do(r))(s.t)
	defer resp.Body.Close()
	b := require.Value(io.ReadAll(resp.Body))(s.t)
	return resp.StatusCode, string(b)
}

func TestServing(t *testing.T) {
	t.Run("it serves a backlog until it is stopped", func(t *testing.T) {
		s := start(t, "--backlog", "30")
		status, body := s.get("Service apikey="+standin.DefaultAPIKey, "/detections?limit=20000")
		var detections []any
		err := json.Unmarshal([]byte(body), &detections)
		assert.True(t, status == 200 && err == nil && len(detections) == 30, status, len(detections), "detections", err)
		s.client.CloseIdleConnections()
		code, stderr := s.stop()
		assert.True(t, code == commandline.ExitDone && stderr == "stopped after 1 requests, with 30 detections\n", "it ended with", code, stderr)
	})
	t.Run("key, product and firmware are what the flags say", func(t *testing.T) {
		s := start(t, "--key", "k", "--product", "Acme", "--firmware", "9.9.1.2")
		_, body := s.get("Acme apikey=k", "/acme/version")
		assert.Equal(t, body, `{"version":"9.9.1.2"}`)
	})
	t.Run("a hazard is what its flag says", func(t *testing.T) {
		s := start(t, "--refuse", "short-text")
		status, body := s.get("", "/service")
		assert.True(t, status == 400 && body == "invalid\n", status, body)
	})
	t.Run("the audit log and the record store grow at their rates", func(t *testing.T) {
		s := start(t, "--audit-entries", "7", "--audit-rate", "300", "--record-backlog", "1000", "--record-rate", "300", "--record-tie-rate", "5", "--record-tie-size", "9")
		key := "Service apikey=" + standin.DefaultAPIKey
		for {
			var entries []any
			status, body := s.get(key, "/auditlog")
			err := json.Unmarshal([]byte(body), &entries)
			require.True(t, status == 200 && err == nil && len(entries) >= 7, status, len(entries), "entries", err)
			var found struct{ Total int }
			status, body = s.send("POST", key, "/records/search", `{"from": "-25h", "limit": 1}`)
			err = json.Unmarshal([]byte(body), &found)
			require.True(t, status == 200 && err == nil && found.Total >= 1000, status, found.Total, "records", err)
			if len(entries) > 7 && found.Total > 1009 {
				return
			}
		}
	})
	t.Run("HTTPS is served with a certificate of its own", func(t *testing.T) {
		ca := filepath.Join(t.TempDir(), "ca.pem")
		s := start(t, "--self-signed", "--ca-out", ca)
		certificate := require.Value(os.ReadFile(ca))(t)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(certificate)
		s.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
		status, _ := s.get("Service apikey="+standin.DefaultAPIKey, "/service")
		assert.True(t, status == 200 && strings.HasPrefix(s.url, "https://"), status, "from", s.url)
		const key = "Service apikey=" + standin.DefaultAPIKey
		status, body := s.send("POST", key, "/service/sslcert", "")
		assert.Equal(t, status, 204, body)
		s.client.CloseIdleConnections()
		var unknown x509.UnknownAuthorityError
		_, err := s.client.Get(s.url)
		assert.True(t, errors.As(err, &unknown), "after the certificate was generated again, a new connection yields", err)
	})
	t.Run("restarts, shutdowns and jobs take as long as the flags say", func(t *testing.T) {
		s := start(t, "--restart-time", "0", "--power-on-after", "1ns", "--job-step-time", "0")
		const key = "Service apikey=" + standin.DefaultAPIKey
		for _, path := range []string{"/service/restart", "/service/shutdown", "/service/firmware/previous/rollback"} {
			status, body := s.send("POST", key, path, "")
			assert.Equal(t, status, 202, body, "from", path)
		}
		_, body := s.get(key, "/service/version")
		assert.Equal(t, body, `{"version":"26.2.0.1"}`, "after the rollback, the version")
	})
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	assert.Equal(t, run(t.Context(), []string{"--help"}, &stdout, &stderr), commandline.ExitDone, "it ended with", &stderr)
	for _, text := range []string{"--backlog", "--cut-json", "apikey=", "SIGTERM", "--audit-rate", "--record-rate", "/api/v1/explore/", "--edition"} {
		assert.Contains(t, stdout.String(), text)
	}
}

func TestWrongUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"an unknown flag", []string{"--fast"}, "--fast"},
		{"an argument", []string{"now"}, "now"},
		{"a refusal that is none", []string{"--refuse", "all"}, "short-text"},
		{"a client without a secret", []string{"--client-id", "x"}, "--client-secret"},
		{"a certificate without a key", []string{"--tls-cert", "x"}, "--tls-key"},
		{"two certificates", []string{"--tls-cert", "x", "--tls-key", "y", "--self-signed"}, "--self-signed"},
		{"a certificate to write, and none made", []string{"--ca-out", "x"}, "--self-signed"},
		{"a size that is too small", []string{"--size", "10"}, "--size"},
		{"a probability over 1", []string{"--cut-body", "5"}, "between 0 and 1"},
		{"an upgrade that is none", []string{"--upgrade", "10.0"}, "seconds"},
		{"a probability below 0", []string{"--wrong-date", "-1"}, "between 0 and 1"},
		{"a log that keeps nothing", []string{"--audit-capacity", "0"}, "--audit-capacity"},
		{"a negative time", []string{"--restart-time", "-1s"}, "--restart-time"},
		{"a negative backlog of records", []string{"--record-backlog", "-1"}, "--record-backlog"},
		{"a negative backlog", []string{"--backlog", "-1"}, "--backlog"},
		{"a status that is not a server error", []string{"--server-error-status", "404"}, "--server-error-status"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), test.args, &stdout, &stderr)
			assert.True(t, code == commandline.ExitUsage && strings.Contains(stderr.String(), test.want) && stdout.Len() <= 0, "it ended with", code, &stdout, &stderr)
		})
	}
	t.Run("an address in use is a failure", func(t *testing.T) {
		s := start(t)
		var stdout, stderr bytes.Buffer
		assert.Equal(t, run(t.Context(), []string{"--listen", strings.TrimPrefix(s.url, "http://")}, &stdout, &stderr), commandline.ExitFailed, "it ended with", &stderr)
	})
	t.Run("a certificate that is not there is a failure", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		args := []string{"--tls-cert", filepath.Join(t.TempDir(), "none"), "--tls-key", "none"}
		code := run(t.Context(), args, &stdout, &stderr)
		assert.True(t, code == commandline.ExitFailed && strings.Contains(stderr.String(), "read the certificate"), "it ended with", code, &stderr)
	})
}
