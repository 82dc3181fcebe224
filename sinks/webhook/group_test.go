package webhook_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

// initials is lines, but that a request only carries ids with the same first letter.
func initials() *webhook.Preset {
	p := lines{}.preset()
	p.Group = func(e transform.Event) string { return e.ID[:1] }
	p.Compose = func(events []transform.Event) (webhook.Request, error) {
		n := 1
		for n < len(events) && p.Group(events[n]) == p.Group(events[0]) {
			n++
		}
		return lines{}.compose(events[:n])
	}
	return p
}

func TestABatchIsSentGroupByGroup(t *testing.T) {
	ids := []string{"a1", "b1", "a2", "c1", "b2", "a3", "c2"}
	for _, test := range []struct {
		name, fails string // the group whose requests fail
		status      int
		requests    string
		class       map[string]failure.Class // of the groups that are not delivered
		untried     string                   // groups that were not tried
	}{
		{"all are delivered", "", 0, "a1,a2,a3 b1,b2 c1,c2", nil, ""},
		{"a failure ends the batch", "b", 500, "a1,a2,a3 b1,b2", map[string]failure.Class{"b": failure.Transient, "c": failure.Transient}, "c"},
		{"a refusal is that of all behind it", "a", 403, "a1,a2,a3", map[string]failure.Class{"a": failure.Halted, "b": failure.Halted, "c": failure.Halted}, ""},
		{"a wait is that of all behind it", "b", 429, "a1,a2,a3 b1,b2", map[string]failure.Class{"b": failure.Throttled, "c": failure.Throttled}, ""},
		{"a rejection is not that of the others", "b", 422, "a1,a2,a3 b1,b2 c1,c2", map[string]failure.Class{"b": failure.Transient}, "b"}, // one of the two is at fault
	} {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			var requests []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := make([]byte, 100)
				n, _ := r.Body.Read(body)
				mu.Lock()
				defer mu.Unlock()
				text := strings.ReplaceAll(strings.TrimSpace(string(body[:n])), "\n", ",")
				requests = append(requests, text)
				if test.fails != "" && strings.HasPrefix(text, test.fails) {
					w.WriteHeader(test.status)
				}
			}))
			t.Cleanup(server.Close)
			err := open(t, webhook.Options{URL: server.URL, Preset: initials()}).Send(t.Context(), named(t, ids...))
			if got := strings.Join(requests, " "); got != test.requests {
				t.Errorf("requests %s, want %s", got, test.requests)
			}
			for i, id := range ids {
				result := err
				if each, ok := errors.AsType[failure.EventErrors](err); ok {
					result = each[i]
				}
				want, failed := test.class[id[:1]]
				class, _ := failure.ClassOf(result)
				if failed != (result != nil) || failed && class != want || errors.Is(result, failure.ErrNotTried) != (test.untried == id[:1]) {
					t.Errorf("%s: class %s: %v", id, class, result)
				}
			}
		})
	}
}
