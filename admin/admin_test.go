package admin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/admin"
)

func TestAnswers(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ndrbridge_test", Help: "A gauge."}, func() float64 { return 1 }))
	for _, c := range []struct {
		name, token, path, authorization string
		method                           string // empty: GET
		host                             string // that is asked for; empty: the address
		notReady                         []string
		status                           int
		body                             string
	}{
		{name: "a process that lives is healthy", path: "/healthz", notReady: []string{"x"}, status: 200, body: "ok"},
		{name: "health needs no token", token: "s3cret", path: "/healthz", status: 200, body: "ok"},
		{name: "health can be asked for without a body", method: http.MethodHead, path: "/healthz", status: 200},
		{name: "readiness needs no token", token: "s3cret", path: "/readyz", status: 200, body: "ready"},
		{name: "what is not ready is told", path: "/readyz", notReady: []string{"stream hq/detections has not been read yet", "sink lake is halted"}, status: 503, body: "sink lake is halted"},
		{name: "metrics are served", path: "/metrics", status: 200, body: "ndrbridge_test 1"},
		{name: "metrics want the token", token: "s3cret", path: "/metrics", status: 401, body: "admin.token"},
		{name: "a wrong token is refused", token: "s3cret", path: "/metrics", authorization: "Bearer other", status: 401},
		{name: "another scheme is refused", token: "s3cret", path: "/metrics", authorization: "Basic s3cret", status: 401},
		{name: "the token lets through", token: "s3cret", path: "/metrics", authorization: "Bearer s3cret", status: 200, body: "ndrbridge_test 1"},
		{name: "a name that a page gave our address is refused", host: "evil.example:9600", path: "/metrics", status: 421, body: "admin.token"},
		{name: "localhost is ours", host: "localhost:9600", path: "/metrics", status: 200},
		{name: "with a token any name will do", host: "bridge.example", token: "s3cret", path: "/metrics", authorization: "Bearer s3cret", status: 200},
		{name: "the page is served", path: "/", status: 200, body: "<title>ndrbridge</title>"},
		{name: "the page needs no token", token: "s3cret", path: "/", status: 200, body: "<title>ndrbridge</title>"},
		{name: "what the page loads needs no token", token: "s3cret", path: "/page/main.js", status: 200, body: "import"},
		{name: "the page can be asked for without a body", method: http.MethodHead, path: "/", status: 200},
		{name: "the page takes nothing", method: http.MethodPost, path: "/", status: 405, body: "GET or HEAD"},
		{name: "what the page loads takes nothing", method: http.MethodDelete, path: "/page/main.js", status: 405, body: "GET or HEAD"},
		{name: "the page is refused to a name that a page gave our address", host: "evil.example:9600", path: "/", status: 421, body: "admin.token"},
		{name: "beside what the page loads there is nothing", path: "/page/nothing.js", status: 404, body: "there is nothing at /page/nothing.js"},
		{name: "the source of what serves the page is not served", path: "/page/page.go", status: 404},
		{name: "an unknown path says what there is", path: "/nothing", status: 404, body: "/readyz"},
		{name: "an unknown path wants the token first", token: "s3cret", path: "/nothing", status: 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(admin.NewHandler(admin.Options{
				Token: c.token, NotReady: func() []string { return c.notReady }, Metrics: registry,
			}))
			defer server.Close()
			request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", c.authorization)
			request.Host = c.host
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != c.status || !strings.Contains(string(body), c.body) {
				t.Errorf("%d %s; want %d with %q", answer.StatusCode, body, c.status, c.body)
			}
			if strings.Contains(string(body), "s3cret") {
				t.Errorf("the answer holds the token: %s", body)
			}
			if answer.StatusCode >= 400 {
				var problem struct {
					Title, Detail string
					Status        int
				}
				if err := json.Unmarshal(body, &problem); err != nil || problem.Status != c.status || problem.Title == "" || problem.Detail == "" {
					t.Errorf("%s is no problem document (%v)", body, err)
				}
				if got := answer.Header.Get("Content-Type"); got != "application/problem+json" {
					t.Errorf("content type %q", got)
				}
			}
		})
	}
}
