package presettest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/require"
)

// CheckKey is the right key in tests of checks. A wrong one begins with wrong-.
const CheckKey = "key-0123456789"

// CheckTest is a check of a webhook whose preset talks to a server.
type CheckTest struct {
	Name     string
	Server   http.Handler
	Open     func(url string) (*webhook.Preset, error)
	Password string // of the account ana, or its token; empty if the webhook has no account
	Want     findingtest.Row
}

// Checks runs the tests. A check must not send a POST request, because it may change
// something, except to paths that contain one of reads, and its findings must not show a
// key.
func Checks(t *testing.T, tests []CheckTest, reads ...string) {
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && !slices.ContainsFunc(reads, func(part string) bool { return strings.Contains(r.URL.Path, part) }) {
					t.Errorf("%s %s: it may have changed something", r.Method, r.URL.Path)
				}
				test.Server.ServeHTTP(w, r)
			}))
			defer server.Close()
			preset, err := test.Open(server.URL)
			require.NoError(t, err)
			o := webhook.Options{URL: server.URL, Preset: preset}
			if preset.Bearer != "" {
				o.Bearer = test.Password
			} else if u, err := url.Parse(server.URL); err == nil && test.Password != "" {
				u.User = url.UserPassword("ana", test.Password)
				o.URL = u.String()
			}
			s, err := webhook.New(o)
			require.NoError(t, err)
			defer s.Close()
			found := s.Check(t.Context(), sinks.Trial{Now: time.Now})
			findingtest.Expect(t, found, test.Want)
			if text := findingtest.Lines(found); strings.Contains(text, "wrong-") || strings.Contains(text, CheckKey) {
				t.Errorf("a secret is shown: %s", text)
			}
		})
	}
}

// JSON answers with a status and a body of JSON.
func JSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// API is a service that has answers for some requests, such as
// {"GET /": "200 {}"}, and answers the others with 404. It refuses requests whose header
// field is not want, unless field is empty.
func API(field, want string, refuse http.HandlerFunc, answers map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.Method+" "+r.URL.Path]
		switch {
		case field != "" && r.Header.Get(field) != want:
			refuse(w, r)
		case !ok:
			JSON(w, http.StatusNotFound, `{"error":"not found"}`)
		case r.ContentLength != 0 && r.Header.Get("Content-Type") != "application/json":
			JSON(w, http.StatusNotAcceptable, `{"error":"Content-Type is not supported"}`)
		default:
			status, text, _ := strings.Cut(body, " ")
			code, _ := strconv.Atoi(status) // an answer without a status panics in WriteHeader
			JSON(w, code, text)
		}
	})
}

// Row returns an expected finding.
func Row(step string, result finding.Result, detail, advice string) findingtest.Row {
	return findingtest.Row{Step: step, Result: result, Detail: detail, Advice: advice}
}

// NoCheck is the test of a preset whose service cannot be asked whether it would accept
// events.
func NoCheck(name string, open func(url string) (*webhook.Preset, error)) CheckTest {
	return CheckTest{Name: name, Server: http.NotFoundHandler(), Open: open, Want: Row("delivery", finding.Untried, "cannot be checked", "ndrbridge try render")}
}
