package operations_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/internal/admin"
	"ndrbridge/test/require"
)

// The admin API of a member shows what went wrong in other members.
func TestAPI(t *testing.T) {
	t.Parallel()
	c := newCluster(3)
	control, acceptor := c.control(t), c.acceptor()
	stop := c.remotely(t)
	server := httptest.NewServer(admin.NewHandler(admin.Options{
		NotReady: func() []string { return nil }, Metrics: prometheus.NewRegistry(),
		Control: func() *admin.Client { return control },
		Tickets: func() admin.Tickets { return admin.Tickets{Acceptor: acceptor} },
	}))
	defer server.Close()
	stop(1)
	c.shards[0].backup = "state"
	command := func(n int) string {
		return `{"ticket_id":"T","status":"closed","appliance":"` + c.applianceIn(n) + `"}`
	}
	for _, test := range []struct {
		name, method, path, key, body string
		status                        int
		want                          string // part of the body
	}{
		{"a shard without an owner in the status", "GET", "status", "", "", 200, `"shard_errors":[{"shard":1,"error":"shard 01: no member owns it`},
		{"a pause that some shards did", "POST", "sinks/lake/pause", "", "", 503, "2 other shards are done: repeat it"},
		{"an unknown sink", "GET", "sinks/nowhere/dead/00-a", "", "", 404, "shard 00: unknown sink"},
		{"a backup without a shard", "POST", "backup", "", "", 503, "shard 01: no member owns it"},
		{"a command for a shard without an owner", "POST", "tickets", "", command(1), 503, "shard 01: no member owns it"},
		{"a command", "POST", "tickets", "", command(2), 202, `"location":"/api/v1/tickets/2"`},
		{"a command that may be known by a shard without an owner", "POST", "tickets", "", `{"ticket_id":"T","status":"closed"}`, 503, "find the appliance"},
		{"commands for two shards without a key", "POST", "tickets", "", "[" + command(0) + "," + command(2) + "]", 422, `"field":"[1]"`},
		{"commands for two shards with a key", "POST", "tickets", "k", "[" + command(0) + "," + command(2) + "]", 202, `"location":"/api/v1/tickets/3"`},
		{"a command of a shard without an owner", "GET", "tickets/4", "", "", 503, "shard 01: no member owns it"},
		{"an unknown command", "GET", "tickets/300", "", "", 404, "shard 00: unknown ticket command"},
	} {
		r, err := http.NewRequest(test.method, server.URL+"/api/v1/"+test.path, strings.NewReader(test.body))
		require.NoError(t, err)
		r.Header.Set("Idempotency-Key", test.key)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != test.status || !strings.Contains(string(body), test.want) {
			t.Errorf("%s: %s %s (%v), want %d with %s", test.name, resp.Status, body, err, test.status, test.want)
		}
		if got := resp.Header.Get("Retry-After"); (got == "5") != (test.status == 503) {
			t.Errorf("%s: Retry-After %q", test.name, got)
		}
		resp.Body.Close()
	}
}
