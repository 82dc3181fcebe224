package preflight_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/finding"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/require"
)

// The privileges that docs/security.md recommends are enough, and a refusal that names the
// missing one is repeated.
func TestCheckOfUsersWithFewPrivileges(t *testing.T) {
	t.Parallel()
	const records = ", records: [{name: dns}]"
	for name, test := range map[string]struct {
		roles   string
		keys    string
		tickets bool
		refused *findingtest.Row // nil: nothing is
	}{
		"one who reads detections and the audit log": {roles: `{"ndr": "full"}`},
		"one who writes tickets too":                 {roles: `{"ndr": "full", "write": "limited"}`, tickets: true},
		"one who queries records too":                {roles: `{"ndr": "full", "write": "full"}`, keys: records, tickets: true},
		"one who may not query records": {
			roles: `{"ndr": "full", "write": "limited"}`, keys: records,
			refused: &findingtest.Row{Step: "records dns", Result: finding.Failed, Detail: "the user bridge lacks the privilege write: full", Advice: "the owner of the key needs write: full; or remove the query from records"},
		},
		"one who may not write tickets": {
			roles: `{"ndr": "full"}`, tickets: true,
			refused: &findingtest.Row{Step: "write", Result: finding.Failed, Detail: "the user bridge lacks the privilege write: limited", Advice: "the owner of the key needs write: limited; or set tickets.enabled to false"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := standin.New(standin.Options{Seed: 1})
			a.AddMany(5)
			server := httptest.NewServer(a)
			t.Cleanup(server.Close)
			key := newUser(t, server.URL, "bridge", test.roles)
			found := check(t, fmt.Sprintf("state: %s\nappliances: [{name: hq, url: %q, api_key: %s%s}]\nsinks: [{name: out, file: {path: \"-\"}}]\ntickets: {enabled: %t}\nadmin: {token: sesame}\n",
				filepath.Join(t.TempDir(), "state.db"), server.URL, key, test.keys, test.tickets), 20*time.Second)
			if test.refused != nil {
				findingtest.Expect(t, found, *test.refused)
				return
			}
			for _, f := range found {
				if f.Target == "appliance hq" && f.Step != "tls" && (f.Result == finding.Failed || f.Result == finding.Warning) {
					t.Errorf("the user may not do what the bridge does: %+v", f)
				}
			}
		})
	}
}

// newUser creates a user of a stand-in appliance and returns an API key of it.
func newUser(t *testing.T, url, name, roles string) string {
	t.Helper()
	post := func(path, body string, into any) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1"+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
		r.Header.Set("Content-Type", "application/json")
		resp := require.Value(http.DefaultClient.Do(r))(t)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("POST %s: %s, %v: %s", path, resp.Status, err, answer)
		}
		if into == nil {
			return
		}
		require.NoError(t, json.Unmarshal(answer, into))
	}
	post("/users", fmt.Sprintf(`{"username": %q, "granted_roles": %s}`, name, roles), nil)
	var generated struct{ Key string }
	post("/users/"+name+"/apikeys", `{"description": "of the bridge"}`, &generated)
	return generated.Key
}
