package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/poller"
)

// endpoints are everything under /api/v1.
var endpoints = []struct{ method, path string }{
	{"GET", "/api/v1/status"},
	{"GET", "/api/v1/history"},
	{"GET", "/api/v1/events"},
	{"POST", "/api/v1/backup"},
	{"POST", "/api/v1/reload"},
	{"POST", "/api/v1/rewind"},
	{"POST", "/api/v1/verify"},
	{"POST", "/api/v1/sinks/lake/pause"},
	{"POST", "/api/v1/sinks/lake/resume"},
	{"POST", "/api/v1/sinks/lake/replay"},
	{"POST", "/api/v1/sinks/lake/requeue"},
	{"GET", "/api/v1/sinks/lake/dead"},
	{"DELETE", "/api/v1/sinks/lake/dead"},
	{"GET", "/api/v1/sinks/lake/dead/1"},
	{"GET", "/api/v1/appliances/hq/dead"},
	{"DELETE", "/api/v1/appliances/hq/dead"},
	{"GET", "/api/v1/appliances/hq/dead/1"},
	{"GET", "/api/v1/tickets"},
	{"POST", "/api/v1/tickets"},
	{"GET", "/api/v1/tickets/1"},
	{"DELETE", "/api/v1/tickets/1"},
	{"POST", "/api/v1/tickets/1/retry"},
	{"POST", "/api/v1/tickets/jira"},
}

// request sends one and returns the answer with its body.
func request(t *testing.T, method, address, body, token string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// checkProblem wants a problem document with a status, and a detail that holds a
// text.
func checkProblem(t *testing.T, answer *http.Response, body string, status int, detail string) {
	t.Helper()
	var p struct {
		Title, Detail string
		Status        int
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil || p.Title == "" || p.Status != answer.StatusCode {
		t.Errorf("%s is no problem document (%v)", body, err)
	}
	if got := answer.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if answer.StatusCode != status || !strings.Contains(p.Detail, detail) {
		t.Errorf("%d %q; want %d with %q", answer.StatusCode, p.Detail, status, detail)
	}
}

func TestEveryEndpointWantsTheToken(t *testing.T) {
	c := newControl(t)
	_, server := serve(t, c)
	for _, e := range endpoints {
		for _, got := range []string{"", "other"} {
			answer, body := request(t, e.method, server.URL+e.path, `{"all":true}`, got)
			if answer.StatusCode != http.StatusUnauthorized || answer.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s with token %q: %d %s", e.method, e.path, got, answer.StatusCode, body)
			}
		}
	}
}

func TestEveryEndpointSaysThatTheStateIsBeingOpened(t *testing.T) {
	server := httptest.NewServer(admin.NewHandler(handler(nil)))
	defer server.Close()
	for _, e := range endpoints {
		answer, body := request(t, e.method, server.URL+e.path, "", token)
		checkProblem(t, answer, body, http.StatusServiceUnavailable, "being opened")
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name               string
		method, path, body string
		err                error // of the bridge
		status             int
		detail             string
	}{
		{name: "a method that a path does not take is told, with those that it takes", method: "PUT", path: "/api/v1/sinks/lake/dead", status: 405, detail: "use DELETE or GET"},
		{name: "a change cannot be asked for with GET", method: "GET", path: "/api/v1/sinks/lake/pause", status: 405, detail: "use POST"},
		{name: "health is only read", method: "POST", path: "/healthz", status: 405, detail: "use GET or HEAD"},
		{name: "metrics are only read", method: "DELETE", path: "/metrics", status: 405, detail: "use GET or HEAD"},
		{name: "an unknown path of the API says what there is", method: "GET", path: "/api/v1/sink/lake", status: 404, detail: "/api/v1/status"},

		{name: "without a selection nothing is dropped", method: "DELETE", path: "/api/v1/sinks/lake/dead", status: 400, detail: "body is missing"},
		{name: "an empty selection is none", method: "DELETE", path: "/api/v1/sinks/lake/dead", body: `{}`, status: 400, detail: `{"all": true}`},
		{name: "all that is false selects nothing", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"all":false}`, status: 400, detail: `{"all": true}`},
		{name: "keys that are null select nothing", method: "DELETE", path: "/api/v1/sinks/lake/dead", body: `{"keys":null}`, status: 400, detail: `{"all": true}`},
		{name: "all and keys at once say two things", method: "DELETE", path: "/api/v1/sinks/lake/dead", body: `{"keys":["1"],"all":true}`, status: 400, detail: `{"all": true}`},
		{name: "a word that was meant otherwise is no selection", method: "DELETE", path: "/api/v1/sinks/lake/dead", body: `{"key":"1","all":true}`, status: 400, detail: `unknown field "key"`},
		{name: "what is no JSON is told", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `all`, status: 400, detail: "not the JSON that is due"},
		{name: "a second value behind the first is told", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"keys":[]} {"all":true}`, status: 400, detail: "something follows it"},
		{name: "a body that is too large is told", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"keys":["` + strings.Repeat("1", 1<<20) + `"]}`, status: 413, detail: "ask for less"},
		{name: "a replay wants a time", method: "POST", path: "/api/v1/sinks/lake/replay", body: `{}`, status: 400, detail: "since is missing: write a time such as"},
		{name: "a rewind wants a time", method: "POST", path: "/api/v1/rewind", body: `{"appliance":"hq","stream":"detections"}`, status: 400, detail: "to is missing: write a time such as"},
		{name: "a tail wants a number of events that is one", method: "GET", path: "/api/v1/events?last=-1", status: 400, detail: "last must be a number of events"},
		{name: "a tail wants a time that is one", method: "GET", path: "/api/v1/events?since=yesterday", status: 400, detail: "since is no time: write a time such as"},
		{name: "a limit is a number", method: "GET", path: "/api/v1/sinks/lake/dead?limit=all", status: 400, detail: "from 1 to 1000"},
		{name: "a limit is above nothing", method: "GET", path: "/api/v1/sinks/lake/dead?limit=0", status: 400, detail: "from 1 to 1000"},
		{name: "a limit has one itself", method: "GET", path: "/api/v1/sinks/lake/dead?limit=1001", status: 400, detail: "from 1 to 1000"},
		{name: "bodies are asked for or not", method: "GET", path: "/api/v1/sinks/lake/dead?bodies=some", status: 400, detail: "true or false"},
		{name: "dead letters of an appliance are those of a stream", method: "GET", path: "/api/v1/appliances/hq/dead", status: 400, detail: "stream=detections"},
		{name: "what an appliance showed cannot be requeued", method: "POST", path: "/api/v1/appliances/hq/requeue?stream=detections", body: `{"all":true}`, status: 404, detail: "there is nothing at"},

		{name: "an unknown sink is told", method: "GET", path: "/api/v1/sinks/sea/dead", status: 404, detail: "there is lake"},
		{name: "an unknown dead letter is told", method: "GET", path: "/api/v1/sinks/lake/dead/7", status: 404, detail: `unknown dead letter "7"`},
		{name: "an unknown sink is not paused", method: "POST", path: "/api/v1/sinks/sea/pause", status: 404, detail: "there is lake"},
		{name: "an unknown stream has no dead letters", method: "DELETE", path: "/api/v1/appliances/hq/dead?stream=audit", body: `{"all":true}`, status: 404, detail: "source/hq/audit"},
		{name: "a bridge that does not run cannot reload", method: "POST", path: "/api/v1/reload", err: fmt.Errorf("reload: %w", admin.ErrNotRunning), status: 409, detail: "does not run"},
		{name: "a configuration that is wrong is told", method: "POST", path: "/api/v1/reload", err: errors.New("sinks[0].kafka.brokers: is missing"), status: 422, detail: "sinks[0].kafka.brokers"},
		{name: "a stream that was never read cannot be rewound", method: "POST", path: "/api/v1/rewind", body: `{"appliance":"hq","stream":"detections","to":"2026-01-31T08:00:00Z"}`, err: poller.ErrNoPosition, status: 409, detail: "never been read"},
		{name: "dead letters without space are told", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"all":true}`, err: checkpoint.ErrDeadFull, status: 409, detail: "full"},
		{name: "a state that somebody else moved is told", method: "POST", path: "/api/v1/sinks/lake/replay", body: `{"since":"2026-01-31T08:00:00Z"}`, err: checkpoint.ErrFenced, status: 409, detail: "moved"},
		{name: "a bridge that stops is told", method: "GET", path: "/api/v1/status", err: checkpoint.ErrClosed, status: 503, detail: "closed"},
		{name: "a backup that cannot begin is told", method: "POST", path: "/api/v1/backup", err: errors.New("no space left on device"), status: 500, detail: "no space left"},
		{name: "a comparison that cannot begin is told", method: "POST", path: "/api/v1/verify", body: `{"appliance":"hq"}`, err: admin.ErrUnknown, status: 404, detail: "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bridge := newControl(t)
			bridge.journal(t, 1, `{}`)
			bridge.settle(t, 1)
			bridge.err = c.err
			_, server := serve(t, bridge)
			answer, body := request(t, c.method, server.URL+c.path, c.body, token)
			checkProblem(t, answer, body, c.status, c.detail)
			if c.status == http.StatusMethodNotAllowed && answer.Header.Get("Allow") == "" {
				t.Error("the methods that are allowed are not told")
			}
			deadLetters, err := bridge.store.Dead(t.Context(), lake, "", 10)
			if err != nil || len(deadLetters) != 1 {
				t.Errorf("%d dead letters are left (%v), want the one that there was", len(deadLetters), err)
			}
		})
	}
}

func TestAPageOfAnotherSiteCannotActHere(t *testing.T) {
	_, server := serve(t, newControl(t))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/sinks/lake/pause", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://evil.example")
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	checkProblem(t, answer, string(body), http.StatusForbidden, "another site")
}
