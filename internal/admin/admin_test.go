package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
)

func TestAnswers(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ndrbridge_test", Help: "A gauge."}, func() float64 { return 1 }))
	for _, c := range []struct {
		name, token, path, authorization string
		method                           string // empty: GET
		host                             string // the Host header; empty: the address
		notReady                         []string
		status                           int
		body                             string
	}{
		{name: "a process that lives is healthy", path: "/healthz", notReady: []string{"x"}, status: 200, body: "ok"},
		{name: "health needs no token", token: "s3cret", path: "/healthz", status: 200, body: "ok"},
		{name: "health supports HEAD", method: http.MethodHead, path: "/healthz", status: 200},
		{name: "readiness needs no token", token: "s3cret", path: "/readyz", status: 200, body: "ready"},
		{name: "readiness fails with the reasons", path: "/readyz", notReady: []string{"stream hq/detections has not been read yet", "sink lake is halted"}, status: 503, body: "sink lake is halted"},
		{name: "metrics are served", path: "/metrics", status: 200, body: "ndrbridge_test 1"},
		{name: "metrics require the token", token: "s3cret", path: "/metrics", status: 401, body: "admin.token"},
		{name: "a wrong token is refused", token: "s3cret", path: "/metrics", authorization: "Bearer other", status: 401},
		{name: "another scheme is refused", token: "s3cret", path: "/metrics", authorization: "Basic s3cret", status: 401},
		{name: "the token is accepted", token: "s3cret", path: "/metrics", authorization: "Bearer s3cret", status: 200, body: "ndrbridge_test 1"},
		{name: "a rebound host name is refused", host: "evil.example:9600", path: "/metrics", status: 421, body: "admin.token"},
		{name: "localhost is accepted", host: "localhost:9600", path: "/metrics", status: 200},
		{name: "with a token any host name is accepted", host: "bridge.example", token: "s3cret", path: "/metrics", authorization: "Bearer s3cret", status: 200},
		{name: "the page is served", path: "/", status: 200, body: "<title>ndrbridge</title>"},
		{name: "the page needs no token", token: "s3cret", path: "/", status: 200, body: "<title>ndrbridge</title>"},
		{name: "the page's files need no token", token: "s3cret", path: "/page/main.js", status: 200, body: "import"},
		{name: "the page supports HEAD", method: http.MethodHead, path: "/", status: 200},
		{name: "the page refuses POST", method: http.MethodPost, path: "/", status: 405, body: "GET or HEAD"},
		{name: "the page's files refuse DELETE", method: http.MethodDelete, path: "/page/main.js", status: 405, body: "GET or HEAD"},
		{name: "the page is refused to a rebound host name", host: "evil.example:9600", path: "/", status: 421, body: "admin.token"},
		{name: "an unknown file of the page is not found", path: "/page/nothing.js", status: 404, body: "there is nothing at /page/nothing.js"},
		{name: "the package's source is not served", path: "/page/page.go", status: 404},
		{name: "an unknown path suggests known ones", path: "/nothing", status: 404, body: "/readyz"},
		{name: "an unknown path requires the token", token: "s3cret", path: "/nothing", status: 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newServer(t, admin.Options{
				Token: c.token, NotReady: func() []string { return c.notReady }, Metrics: registry,
			})
			answer, body := send(t, c.method, server.URL+c.path, "", "Authorization", c.authorization, "Host", c.host)
			assert.True(t, answer.StatusCode == c.status && strings.Contains(body, c.body), answer.StatusCode, body, c.status, c.body)
			assert.NotContains(t, body, "s3cret", "the answer holds the token")
			if answer.StatusCode >= 400 {
				checkProblem(t, answer, body, c.status, c.body)
			}
		})
	}
}
