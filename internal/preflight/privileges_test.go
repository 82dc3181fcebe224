package preflight_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/finding"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/findingtest"
)

// What the answer to GET /users shows is compared with what the sections require, and with
// what the appliance let the key do.
func TestCheckReadsThePrivilegesOfTheKey(t *testing.T) {
	t.Parallel()
	user := func(levels string) string {
		return `[{"username": "ana", "granted_roles": {}, "effective_roles": {` + levels + `}}]`
	}
	const enough = `"write": "full", "ndr": "full", "npm": "none"`
	for name, test := range map[string]struct {
		users   string // the answer
		status  int    // of the answer; 0: 200
		keys    string // of the appliance
		refused string // the path that is answered with 403
		message string // of the 403
		want    findingtest.Row
		alone   bool // there is no other finding about privileges
	}{
		"a user with all of them": {
			users: user(enough), alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.OK, Detail: "the user ana has ndr: full, npm: none, write: full"},
		},
		"a user with system privileges": {
			users: user(`"system": "full"`), alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.OK, Detail: "system: full"},
		},
		"a user who may read detections, as far as is known": {
			users: user(`"write": "full"`), alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.OK, Detail: "write: full"},
		},
		"a user without the module": {
			users: user(`"write": "full", "ndr": "none", "npm": "full"`), alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.Warning, Detail: "detections requires ndr: full, and the user ana has ndr: none", Advice: "grant ndr: full to the user ana on the appliance, or set detections.enabled to false"},
		},
		"a user without the module for what is filtered": {
			users: user(enough), keys: "detections: {filter: {categories: [perf, perf.web]}}", alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.Warning, Detail: "requires npm: full", Advice: "grant npm: full"},
		},
		"a user with a refused stream": {
			users: user(`"write": "full"`), refused: "/detections/search", alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.Warning, Detail: "requires ndr: full, and the user ana does not have ndr", Advice: "grant ndr: full"},
		},
		"a user who may not read the audit log": {
			users: user(enough), refused: "/auditlog", alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.Warning, Detail: "audit requires system: full", Advice: "set audit.enabled to false"},
		},
		"a user who may not query records": {
			users: user(`"write": "limited", "ndr": "full"`), keys: "records: [{name: dns}]", refused: "/records/search", alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.Warning, Detail: "records requires write: full, and the user ana has write: limited", Advice: "or remove records"},
		},
		"a user who may read detections that a filter selects": {
			users: user(`"write": "full"`), keys: "detections: {filter: {types: [a]}}", alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.OK, Detail: "the user ana has write: full"},
		},
		"a user whose levels have other names": {
			users: user(`"ndr": "some"`), refused: "/detections/search", alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.Remark, Detail: "does not show those of the user ana"},
		},
		"a user who may query records nevertheless": {
			users: user(`"write": "limited", "ndr": "full"`), keys: "records: [{name: dns}]", alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.OK, Detail: "write: limited"},
		},
		"a user who may only read": {
			users: user(`"metrics": "full", "ndr": "full"`), alone: true,
			want: findingtest.Row{Step: "privileges", Result: finding.Warning, Detail: "tickets requires write: limited, and the user ana does not have write", Advice: "tickets.enabled"},
		},
		"several users":                 {users: `[{"username": "ana"}, {"username": "bo"}]`, want: findingtest.Row{Step: "privileges", Result: finding.Remark, Detail: "lists 2 users"}, alone: true},
		"a user without roles":          {users: `[{"username": "ana"}]`, want: findingtest.Row{Step: "privileges", Result: finding.Remark, Detail: "does not show those of the user ana"}, alone: true},
		"an answer of another shape":    {users: `{"users": 3}`, want: findingtest.Row{Step: "privileges", Result: finding.Remark, Detail: "does not show them"}, alone: true},
		"a list that may not be read":   {users: `{}`, status: 403, want: findingtest.Row{Step: "privileges", Result: finding.Remark, Detail: "403"}, alone: true},
		"an appliance without the list": {users: `{}`, status: 404, want: findingtest.Row{Step: "privileges", Result: finding.Remark, Detail: "404"}, alone: true},
		"a list that fails":             {users: `{}`, status: 500, want: findingtest.Row{Step: "privileges", Result: finding.Remark, Detail: "500"}, alone: true},

		"a refusal that names the privilege": {
			users: `{}`, refused: "/auditlog", message: "the user ana lacks the privilege system: full",
			want: findingtest.Row{Step: "audit log", Result: finding.Failed, Detail: "403", Advice: "the owner of the key needs system: full; or set audit.enabled to false"},
		},
		"a refused write that names the privilege": {
			users: `{}`, refused: "/detections/tickets", message: "write: limited is required",
			want: findingtest.Row{Step: "write", Result: finding.Failed, Detail: "403", Advice: "the owner of the key needs write: limited; or set tickets.enabled to false"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := standin.New(standin.Options{Seed: 1})
			a.AddMany(5)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/api/v1/users":
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(cmp.Or(test.status, http.StatusOK))
					fmt.Fprint(w, test.users)
				case test.refused != "" && strings.HasSuffix(r.URL.Path, test.refused):
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprintf(w, `{"error_message": %q}`, test.message)
				default:
					a.ServeHTTP(w, r)
				}
			}))
			t.Cleanup(server.Close)
			keys := ""
			if test.keys != "" {
				keys = ", " + test.keys
			}
			found := check(t, fmt.Sprintf("state: %s\nappliances: [{name: hq, url: %q, api_key: %s%s}]\nsinks: [{name: out, file: {path: \"-\"}}]\ntickets: {enabled: true}\nadmin: {token: sesame}\n",
				filepath.Join(t.TempDir(), "state.db"), server.URL, standin.DefaultAPIKey, keys), 20*time.Second)
			findingtest.Expect(t, found, test.want)
			about := slices.DeleteFunc(found, func(f finding.Finding) bool { return f.Step != "privileges" })
			if test.alone && len(about) != 1 {
				t.Errorf("more findings about privileges:\n%s", findingtest.Lines(about))
			}
		})
	}
}

func TestCheckShowsTheEdition(t *testing.T) {
	t.Parallel()
	a := standin.New(standin.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/edition") {
			fmt.Fprint(w, `{"edition": "standard"}`)
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	found := check(t, fmt.Sprintf("state: %s\nappliances: [{name: hq, url: %q, api_key: %s}]\nsinks: [{name: out, file: {path: \"-\"}}]\n",
		filepath.Join(t.TempDir(), "state.db"), server.URL, standin.DefaultAPIKey), 20*time.Second)
	findingtest.Expect(t, found, findingtest.Row{Step: "edition", Result: finding.OK, Detail: "standard"})
}

// The privileges that docs/security.md recommends are enough, and the stand-in's own list of
// users shows which one is missing otherwise.
func TestCheckOfUsersWithFewPrivileges(t *testing.T) {
	t.Parallel()
	row := func(step string, result finding.Result, detail, advice string) findingtest.Row {
		return findingtest.Row{Step: step, Result: result, Detail: detail, Advice: advice}
	}
	for name, test := range map[string]struct {
		roles   string
		keys    string
		tickets bool
		want    findingtest.Row
	}{
		"one who reads detections and the audit log": {
			roles: `{"ndr": "full"}`,
			want:  row("privileges", finding.OK, "the user bridge has ndr: full", ""),
		},
		"one who writes tickets too": {
			roles: `{"ndr": "full", "write": "limited"}`, tickets: true,
			want: row("privileges", finding.OK, "the user bridge has ndr: full, write: limited", ""),
		},
		"one who queries records too": {
			roles: `{"ndr": "full", "write": "full"}`, keys: "records: [{name: dns}]", tickets: true,
			want: row("privileges", finding.OK, "the user bridge has ndr: full, write: full", ""),
		},
		"one with no privilege at all": {
			roles: `{}`,
			want:  row("privileges", finding.Warning, "detections requires ndr: full, and the user bridge does not have ndr", "grant ndr: full to the user bridge"),
		},
		"one without the module": {
			roles: `{"ndr": "none", "write": "limited"}`, tickets: true,
			want: row("privileges", finding.Warning, "detections requires ndr: full, and the user bridge has ndr: none", "grant ndr: full to the user bridge"),
		},
		"one who may not query records": {
			roles: `{"ndr": "full", "write": "limited"}`, keys: "records: [{name: dns}]",
			want: row("privileges", finding.Warning, "records requires write: full, and the user bridge has write: limited", "or remove records"),
		},
		"one whose refused query names the privilege": {
			roles: `{"ndr": "full", "write": "limited"}`, keys: "records: [{name: dns}]",
			want: row("records dns", finding.Failed, "the user bridge lacks the privilege write: full", "the owner of the key needs write: full; or remove the query from records"),
		},
		"one who writes only what belongs to it": {
			roles: `{"ndr": "full", "write": "personal"}`, tickets: true,
			want: row("privileges", finding.Warning, "tickets requires write: limited, and the user bridge has write: personal", "grant write: limited"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := standin.New(standin.Options{Seed: 1})
			a.AddMany(5)
			server := httptest.NewServer(a)
			t.Cleanup(server.Close)
			key := newUser(t, server.URL, "bridge", test.roles)
			keys := ""
			if test.keys != "" {
				keys = ", " + test.keys
			}
			found := check(t, fmt.Sprintf("state: %s\nappliances: [{name: hq, url: %q, api_key: %s%s}]\nsinks: [{name: out, file: {path: \"-\"}}]\ntickets: {enabled: %t}\nadmin: {token: sesame}\n",
				filepath.Join(t.TempDir(), "state.db"), server.URL, key, keys, test.tickets), 20*time.Second)
			findingtest.Expect(t, found, test.want)
			if test.want.Result != finding.OK {
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
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("POST %s: %s, %v: %s", path, resp.Status, err, answer)
		}
		if into == nil {
			return
		}
		if err := json.Unmarshal(answer, into); err != nil {
			t.Fatal(err)
		}
	}
	post("/users", fmt.Sprintf(`{"username": %q, "granted_roles": %s}`, name, roles), nil)
	var generated struct{ Key string }
	post("/users/"+name+"/apikeys", `{"description": "of the bridge"}`, &generated)
	return generated.Key
}
