package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// endpoints are all endpoints of the API.
var endpoints = []struct{ method, path string }{
	{"GET", "/api/v1/status"},
	{"GET", "/api/v1/history"},
	{"GET", "/api/v1/cluster"},
	{"POST", "/api/v1/cluster/handover"},
	{"POST", "/api/v1/cluster/recover"},
	{"GET", "/api/v1/events"},
	{"GET", "/api/v1/appliances/hq/detections/4711"},
	{"POST", "/api/v1/backup"},
	{"POST", "/api/v1/reload"},
	{"POST", "/api/v1/rewind"},
	{"POST", "/api/v1/verify"},
	{"POST", "/api/v1/sinks/lake/pause"},
	{"POST", "/api/v1/sinks/lake/resume"},
	{"POST", "/api/v1/sinks/lake/replay"},
	{"POST", "/api/v1/sinks/lake/requeue"},
	{"POST", "/api/v1/sinks/lake/forget"},
	{"POST", "/api/v1/sinks/lake/rename"},
	{"POST", "/api/v1/appliances/hq/forget"},
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
	{"POST", "/api/v1/commands"},
}

// request sends a request with a token, unless that is empty, and returns the response with its body.
func request(t *testing.T, method, address, body, token string) (*http.Response, string) {
	t.Helper()
	if token == "" {
		return send(t, method, address, body)
	}
	return send(t, method, address, body, "Authorization", "Bearer "+token)
}

// send sends a request with headers, given as alternating names and values, and returns the response
// with its body.
func send(t *testing.T, method, address, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r := require.Value(http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body)))(t)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	answer := require.Value(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	text := require.Value(io.ReadAll(answer.Body))(t)
	return answer, string(text)
}

// checkProblem checks that the response is a problem document with a status, and that
// its detail contains a text.
func checkProblem(t *testing.T, answer *http.Response, body string, status int, detail string) {
	t.Helper()
	var p struct {
		Title, Detail string
		Status        int
	}
	err := json.Unmarshal([]byte(body), &p)
	assert.True(t, err == nil && p.Title != "" && p.Detail != "" && p.Status == answer.StatusCode, body, "is not a problem document", err)
	assert.Equal(t, answer.Header.Get("Content-Type"), "application/problem+json", "content type")
	assert.True(t, answer.StatusCode == status && strings.Contains(p.Detail, detail), answer.StatusCode, p.Detail, status, detail)
}

func TestEveryEndpointRequiresTheToken(t *testing.T) {
	c := newControl(t)
	_, server := serve(t, c)
	for _, e := range endpoints {
		for _, got := range []string{"", "other"} {
			answer, body := request(t, e.method, server.URL+e.path, `{"all":true}`, got)
			assert.True(t, answer.StatusCode == http.StatusUnauthorized && answer.Header.Get("WWW-Authenticate") != "", e.method, e.path, got, answer.StatusCode, body)
		}
	}
}

func TestEveryEndpointIsUnavailableWhileTheStateOpens(t *testing.T) {
	server := newServer(t, handler(nil))
	defer server.Close()
	for _, e := range endpoints {
		answer, body := request(t, e.method, server.URL+e.path, "", token)
		checkProblem(t, answer, body, http.StatusServiceUnavailable, "being opened")
	}
}

func TestRefusedRequests(t *testing.T) {
	for _, c := range []struct {
		name               string
		method, path, body string
		err                error // of the bridge
		status             int
		detail             string
	}{
		{name: "an unsupported method", method: "PUT", path: "/api/v1/sinks/lake/dead", status: 405, detail: "use DELETE or GET"},
		{name: "a change with GET", method: "GET", path: "/api/v1/sinks/lake/pause", status: 405, detail: "use POST"},
		{name: "health is read only", method: "POST", path: "/healthz", status: 405, detail: "use GET or HEAD"},
		{name: "metrics are read only", method: "DELETE", path: "/metrics", status: 405, detail: "use GET or HEAD"},
		{name: "an unknown path of the API", method: "GET", path: "/api/v1/sink/lake", status: 404, detail: "/api/v1/status"},

		{name: "no selection", method: "DELETE", path: "/api/v1/sinks/lake/dead", status: 400, detail: "body is missing"},
		{name: "an empty selection", method: "DELETE", path: "/api/v1/sinks/lake/dead", body: `{}`, status: 400, detail: `{"all": true}`},
		{name: "all: false selects nothing", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"all":false}`, status: 400, detail: `{"all": true}`},
		{name: "keys: null selects nothing", method: "DELETE", path: "/api/v1/sinks/lake/dead", body: `{"keys":null}`, status: 400, detail: "/keys is null: leave it out"},
		{name: "all and keys at once", method: "DELETE", path: "/api/v1/sinks/lake/dead", body: `{"keys":["1"],"all":true}`, status: 400, detail: `{"all": true}`},
		{name: "an unknown field in a selection", method: "DELETE", path: "/api/v1/sinks/lake/dead", body: `{"key":"1","all":true}`, status: 400, detail: "there is no field /key"},
		{name: "a field in capitals", method: "DELETE", path: "/api/v1/sinks/lake/dead", body: `{"ALL":true}`, status: 400, detail: "there is no field /ALL"},
		{name: "the same field in small letters and in capitals", method: "POST", path: "/api/v1/rewind", body: `{"appliance":"hq","stream":"detections","to":"2026-01-31T08:00:00Z","To":"2026-01-31T08:00:00Z"}`, status: 400, detail: "there is no field /To"},
		{name: "a number for a truth", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"all":1}`, status: 400, detail: "/all must be true or false"},
		{name: "numbers for keys", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"keys":[17]}`, status: 400, detail: "/keys/0 must be text"},
		{name: "a text for a time", method: "POST", path: "/api/v1/sinks/lake/replay", body: `{"since":"yesterday"}`, status: 400, detail: "/since must be a time such as"},
		{name: "a list for an object", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `["1"]`, status: 400, detail: "it must be an object"},
		{name: "a body of an operation that has none", method: "POST", path: "/api/v1/reload", body: `{"dry_run":true}`, status: 400, detail: "takes no body"},
		{name: "a body that is not JSON", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `all`, status: 400, detail: "not the expected JSON"},
		{name: "a second value after the first", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"keys":[]} {"all":true}`, status: 400, detail: "after top-level value"},
		{name: "a body that is too large", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"keys":["` + strings.Repeat("1", 1<<20) + `"]}`, status: 413, detail: "ask for less"},
		{name: "a replay without a time", method: "POST", path: "/api/v1/sinks/lake/replay", body: `{}`, status: 400, detail: "since is missing: write a time such as"},
		{name: "a rewind to the future", method: "POST", path: "/api/v1/rewind", body: `{"appliance":"hq","stream":"detections","to":"2999-01-31T08:00:00Z"}`, status: 400, detail: "to is in the future, because it is 20"},
		{name: "a rewind without a time", method: "POST", path: "/api/v1/rewind", body: `{"appliance":"hq","stream":"detections"}`, status: 400, detail: "to is missing: write a time such as"},
		{name: "a tail with a live that is neither true nor false", method: "GET", path: "/api/v1/events?live=2", status: 400, detail: "live must be true or false"},
		{name: "a tail with a negative number", method: "GET", path: "/api/v1/events?last=-1", status: 400, detail: "last must be a number of events"},
		{name: "a tail with an invalid time", method: "GET", path: "/api/v1/events?since=yesterday", status: 400, detail: "since is not a time: write a time such as"},
		{name: "a limit that is not a number", method: "GET", path: "/api/v1/sinks/lake/dead?limit=all", status: 400, detail: "from 1 to 1000"},
		{name: "a limit of zero", method: "GET", path: "/api/v1/sinks/lake/dead?limit=0", status: 400, detail: "from 1 to 1000"},
		{name: "a limit that is too large", method: "GET", path: "/api/v1/sinks/lake/dead?limit=1001", status: 400, detail: "from 1 to 1000"},
		{name: "bodies that is not a boolean", method: "GET", path: "/api/v1/sinks/lake/dead?bodies=some", status: 400, detail: "true or false"},
		{name: "dead letters of an appliance without a stream", method: "GET", path: "/api/v1/appliances/hq/dead", status: 400, detail: "stream=detections"},
		{name: "an unknown parameter", method: "GET", path: "/api/v1/tickets?statuss=pending", status: 400, detail: `there is no parameter "statuss": this operation has after, appliance, limit, status, ticket`},
		{name: "a parameter of an operation that has none", method: "POST", path: "/api/v1/sinks/lake/pause?dry_run=true", status: 400, detail: `there is no parameter "dry_run": this operation has none`},
		{name: "a parameter of the description", method: "GET", path: "/api/v1/openapi.json?version=2", status: 400, detail: "this operation has none"},
		{name: "a parameter that is given twice", method: "GET", path: "/api/v1/tickets?limit=1&limit=2", status: 400, detail: "limit is given more than once"},
		{name: "a malformed query", method: "GET", path: "/api/v1/status?%zz", status: 400, detail: "the query is malformed"},
		{name: "a null", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"keys":["1",null]}`, status: 400, detail: "/keys/1 is null"},
		{name: "a field that is given twice", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"all":true,"all":true}`, status: 400, detail: "is given twice"},
		{name: "a comparison without a time", method: "POST", path: "/api/v1/verify", body: `{"appliance":"hq"}`, status: 400, detail: "since is missing"},
		{name: "a requeue of an appliance's dead letters", method: "POST", path: "/api/v1/appliances/hq/requeue?stream=detections", body: `{"all":true}`, status: 404, detail: "there is nothing at"},

		{name: "an unknown sink", method: "GET", path: "/api/v1/sinks/sea/dead", status: 404, detail: "there is lake"},
		{name: "an unknown dead letter", method: "GET", path: "/api/v1/sinks/lake/dead/7", status: 404, detail: `unknown dead letter "7"`},
		{name: "a pause of an unknown sink", method: "POST", path: "/api/v1/sinks/sea/pause", status: 404, detail: "there is lake"},
		{name: "dead letters of an unknown stream", method: "DELETE", path: "/api/v1/appliances/hq/dead?stream=audit", body: `{"all":true}`, status: 404, detail: "source/hq/audit"},
		{name: "a reload while the bridge does not run", method: "POST", path: "/api/v1/reload", err: fmt.Errorf("reload: %w", admin.ErrNotRunning), status: 409, detail: "does not run"},
		{name: "a reload of an invalid configuration", method: "POST", path: "/api/v1/reload", err: errors.New("sinks[0].kafka.brokers: is missing"), status: 422, detail: "sinks[0].kafka.brokers"},
		{name: "a rewind of a stream that was never read", method: "POST", path: "/api/v1/rewind", body: `{"appliance":"hq","stream":"detections","to":"2026-01-31T08:00:00Z"}`, err: poller.ErrNoPosition, status: 409, detail: "never been read"},
		{name: "no space for dead letters", method: "POST", path: "/api/v1/sinks/lake/requeue", body: `{"all":true}`, err: checkpoint.ErrDeadFull, status: 409, detail: "full"},
		{name: "a cursor moved concurrently", method: "POST", path: "/api/v1/sinks/lake/replay", body: `{"since":"2026-01-31T08:00:00Z"}`, err: checkpoint.ErrFenced, status: 409, detail: "moved"},
		{name: "a stopping bridge", method: "GET", path: "/api/v1/status", err: checkpoint.ErrClosed, status: 503, detail: "closed"},
		{name: "a backup that cannot start", method: "POST", path: "/api/v1/backup", err: errors.New("no space left on device"), status: 500, detail: "no space left"},
		{name: "a comparison that cannot start", method: "POST", path: "/api/v1/verify", body: `{"appliance":"hq","since":"2026-01-31T08:00:00Z"}`, err: admin.ErrUnknown, status: 404, detail: "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bridge := newControl(t)
			bridge.journal(t, 1, `{}`)
			bridge.deliver(t, 1)
			bridge.err = c.err
			_, server := serve(t, bridge)
			answer, body := request(t, c.method, server.URL+c.path, c.body, token)
			checkProblem(t, answer, body, c.status, c.detail)
			assert.True(t, c.status != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "", "the Allow header is missing")
			deadLetters := require.Value(bridge.store.Dead(t.Context(), lake, "", 10))(t)
			assert.Equal(t, len(deadLetters), 1, "dead letters are left")
		})
	}
}

func TestABodyOfUnknownLength(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"one that is empty is no body", "", http.StatusNoContent},
		{"one that is not is refused by an operation that has none", "{}", http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, server := serve(t, newControl(t))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/sinks/lake/pause", io.MultiReader(strings.NewReader(c.body)))
			require.NoError(t, err)
			r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
			r.Header.Set("Authorization", "Bearer "+token)
			answer := require.Value(http.DefaultClient.Do(r))(t)
			defer answer.Body.Close()
			assert.Equal(t, answer.StatusCode, c.status, answer.Status)
		})
	}
}

func TestCrossOriginRequestsAreRefused(t *testing.T) {
	_, server := serve(t, newControl(t))
	answer, body := send(t, http.MethodPost, server.URL+"/api/v1/sinks/lake/pause", "", "Origin", "https://evil.example", "Authorization", "Bearer "+token)
	checkProblem(t, answer, body, http.StatusForbidden, "another site")
}
