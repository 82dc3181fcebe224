package main

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"ndrbridge/checkpoint"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/certificate"
	"ndrbridge/test/jira"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// environment is what all mistakes share: servers of several kinds, and a bridge that runs.
type environment struct {
	names []string // in the texts of mistakes, each followed by what it stands for
	state string   // the content of a state file
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	e := new(environment)
	add := func(name, address string) { e.names = append(e.names, name, address) }
	// serve starts a server that logs nothing: it receives what it cannot read.
	serve := func(name string, handler http.Handler, secure *tls.Certificate) {
		s := httptest.NewUnstartedServer(handler)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		if secure == nil {
			s.Start()
		} else {
			s.TLS = &tls.Config{Certificates: []tls.Certificate{*secure}, MinVersion: tls.VersionTLS12}
			s.StartTLS()
		}
		t.Cleanup(s.Close)
		add(name, s.Listener.Addr().String())
	}
	answer := func(status int, contentType, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	appliance := standin.New(standin.Options{Seed: 1})
	self := certificate.New(t, "127.0.0.1", time.Now().AddDate(10, 0, 0), nil)
	other := certificate.New(t, "sensor.example", time.Now().AddDate(10, 0, 0), nil)
	add("10.20.0.1:40009", loopback.Closed(t))
	serve("10.20.0.2:18080", appliance, nil)
	serve("10.20.0.3:10443", appliance, &self)
	serve("10.20.0.4:10443", appliance, &other)
	expired := certificate.New(t, "127.0.0.1", time.Date(2024, 2, 3, 0, 0, 0, 0, time.UTC), nil)
	serve("10.20.0.14:10443", appliance, &expired)
	serve("10.20.0.5:18080", answer(http.StatusOK, "text/html", "<html><title>Welcome</title>It works!</html>"), nil)
	from := func(name, value string, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(name, value)
			next.ServeHTTP(w, r)
		})
	}
	serve("10.20.0.10:18080", from("Server", "nginx/1.27.0", answer(http.StatusNotFound, "text/html", "<html><head><title>404 Not Found</title></head></html>")), nil)
	serve("10.20.0.11:18089", from("Server", "Splunkd", answer(http.StatusUnauthorized, "text/xml; charset=UTF-8",
		"<?xml version=\"1.0\"?>\n<response><messages><msg type=\"WARN\">call not properly authenticated</msg></messages></response>")), nil)
	serve("10.20.0.12:18080", from("Location", "https://login.example/sso?next=s3cret", answer(http.StatusFound, "text/html", "<html>Moved</html>")), nil)
	serve("10.20.0.13:13128", from("Server", "squid/6.9", answer(http.StatusBadRequest, "text/html", "<html><head><title>ERROR: The requested URL could not be retrieved</title></head></html>")), nil)
	serve("10.20.0.15:18080", jira.New(jira.Options{Email: "bridge@corp.example", Token: "t0ken-of-jira", Project: "SEC", Lacks: []string{"ASSIGN_ISSUES"}, Now: time.Now}), nil)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "ndr.audit"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	add("10.20.0.7:19092", cluster.ListenAddrs()[0])
	add("10.20.0.8:14222", strings.TrimPrefix(loopback.NATS(t, nil).ClientURL(), "nats://"))

	bridge := func(name string) *installation {
		i := install(t, "- {name: soc, webhook: {url: \"http://127.0.0.1:1\"}}")
		if name != "running" {
			i.takeCommands(name == "running-rules")
		}
		i.start()
		folder := filepath.Dir(i.config) + "/"
		require.NoError(t, os.WriteFile(folder+"token", []byte("s3cret-token\n"), 0o600))
		add("/home/"+name+"/", folder)
		return i
	}
	running := bridge("running")
	bridge("running-tickets") // accepts commands on tickets
	bridge("running-rules")   // and on rules
	add("10.20.0.9:19600", running.admin)

	path := filepath.Join(t.TempDir(), "state.db")
	state, err := checkpoint.Open(path, checkpoint.Options{})
	if err == nil {
		err = state.Close()
	}
	require.NoError(t, err)
	content := require.Value(os.ReadFile(path))(t)
	e.state = string(content)
	certificates := t.TempDir() + "/"
	require.NoError(t, os.WriteFile(certificates+"other.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate[0]}), 0o600))
	add("/home/certificates/", certificates)
	return e
}
