package appliance_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

// as returns a caller that uses another API key.
func (c *caller) as(key string) *caller {
	other := *c
	other.authorization = "Service apikey=" + key
	return &other
}

// within returns the caller for a subtest.
func (c *caller) within(t *testing.T) *caller {
	other := *c
	other.t = t
	return &other
}

// user creates a user with privileges, and returns a caller that uses a key of the user.
func (c *caller) user(name, roles string) *caller {
	c.t.Helper()
	c.want(201, "POST", "/users", `{"username":"`+name+`","granted_roles":`+roles+`}`)
	return c.as(c.key(name))
}

// key generates an API key for a user.
func (c *caller) key(name string) string {
	c.t.Helper()
	var made struct{ Key string }
	body := c.want(201, "POST", "/users/"+name+"/apikeys", `{"description":"test"}`).body
	require.NoError(c.t, json.Unmarshal([]byte(body), &made))
	return made.Key
}

const (
	allRoles = `{"metrics":"full","ndr":"full","npm":"full","packets":"full_with_keys","system":"full","write":"full"}`
	api      = `{"date_joined":1546300800000,"effective_roles":` + allRoles + `,"enabled":true,"granted_roles":{"system":"full"},` +
		`"id":1,"name":"","type":"local","username":"api"}`
	ada = `{"date_joined":1772600767890,"effective_roles":{"ndr":"full"},"enabled":true,"granted_roles":{"ndr":"full"},` +
		`"id":2,"name":"Ada","type":"remote","username":"ada@corp.example"}`
)

func TestUsers(t *testing.T) {
	_, c := serve(t, standin.Options{})
	created := c.want(201, "POST", "/users", `{"username":"ada@corp.example","type":"remote","granted_roles":{"metrics":"full"}}`)
	if at := created.header.Get("Location"); at != "/api/v1/users/ada@corp.example" || created.body != "" {
		t.Errorf("the location is %q, the body %q", at, created.body)
	}
	c.want(204, "PATCH", "/users/ada@corp.example", `{"name":"Ada","granted_roles":{"ndr":"full"}}`)
	if got := c.want(200, "GET", "/users/ada@corp.example", "").body; got != ada {
		t.Errorf("the user is %s, want %s", got, ada)
	}
	if got := c.want(200, "GET", "/users", "").body; got != "["+api+","+ada+"]" {
		t.Errorf("the users are %s", got)
	}
	c.want(204, "PATCH", "/users/api", `{"granted_roles":{"system":"full","ndr":"full"}}`)
	c.want(204, "DELETE", "/users/ada@corp.example", "")
	c.want(404, "GET", "/users/ada@corp.example", "")
}

func TestAPIKeys(t *testing.T) {
	_, c := serve(t, standin.Options{Seed: 1})
	eve := c.user("eve", `{}`)
	t.Run("a key acts for its user", func(t *testing.T) {
		if got := eve.want(200, "GET", "/users", "").body; !strings.HasPrefix(got, "[{") || strings.Count(got, "username") != 1 || !strings.Contains(got, `"username":"eve"`) {
			t.Errorf("the user sees %s", got)
		}
		eve.want(200, "GET", "/users/eve", "")
		if got := eve.want(403, "GET", "/users/api", "").body; got != `{"error_message":"the user eve lacks the privilege system: full"}` {
			t.Errorf("the refusal is %s", got)
		}
		eve.want(403, "POST", "/users", `{"username":"mallory"}`)
		eve.want(403, "POST", "/users/api/apikeys", `{"description":"a"}`)
		eve.want(403, "PATCH", "/users/eve", `{"granted_roles":{"system":"full"}}`)
	})
	t.Run("its text is shown once", func(t *testing.T) {
		made := eve.want(201, "POST", "/users/eve/apikeys", `{"description":"second"}`)
		const second = `{"id":3,"username":"eve","description":"second","created_time":1772600767890}`
		if at := made.header.Get("Location"); at != "/api/v1/users/eve/apikeys/3" {
			t.Errorf("the location is %s", at)
		}
		if got := eve.want(200, "GET", "/users/eve/apikeys/3", "").body; got != second {
			t.Errorf("the key is %s", got)
		}
		if got := c.want(200, "GET", "/users/eve/apikeys", "").body; !strings.Contains(got, second) || strings.Count(got, "id") != 2 {
			t.Errorf("the keys are %s", got)
		}
	})
	t.Run("a key that was revoked is refused", func(t *testing.T) {
		third := c.as(c.key("eve"))
		third.want(200, "GET", "/users/eve", "")
		eve.want(204, "DELETE", "/users/eve/apikeys/4", "")
		third.want(401, "GET", "/users/eve", "")
	})
	t.Run("keys of a user who is disabled are refused", func(t *testing.T) {
		c.want(204, "PATCH", "/users/eve", `{"enabled":false}`)
		eve.want(401, "GET", "/users/eve", "")
		c.want(204, "PATCH", "/users/eve", `{"enabled":true}`)
		eve.want(200, "GET", "/users/eve", "")
	})
	t.Run("keys of a user who is deleted are refused, even if another has the name", func(t *testing.T) {
		c.want(204, "DELETE", "/users/eve", "")
		eve.want(401, "GET", "/users/eve", "")
		c.want(201, "POST", "/users", `{"username":"eve"}`)
		eve.want(401, "GET", "/users/eve", "")
	})
}

func TestACallerIsTheAuthorOfChanges(t *testing.T) {
	a, c := serve(t, standin.Options{})
	eve := c.user("eve", `{"ndr":"full","write":"limited"}`)
	mine, other := a.AddMany(1)[0].ID, a.AddMany(1)[0].ID
	eve.want(204, "PATCH", "/detections/"+mustJSON(t, mine), `{"assignee":"eve"}`)
	c.want(204, "PATCH", "/detections/"+mustJSON(t, other), `{"assignee":"api"}`)
	const me = `{"filter":{"assignee":[".me"]}}`
	wantIDs(t, eve.search(me), mine)
	wantIDs(t, c.search(me), other)
	eve.want(204, "PUT", "/detections/"+mustJSON(t, mine)+"/notes", `{"note":"seen"}`)
	if got := eve.want(200, "GET", "/detections/"+mustJSON(t, mine)+"/notes", "").body; !strings.Contains(got, `"author":"eve"`) {
		t.Errorf("the note is %s", got)
	}
	patches := a.Patches()
	if first, second := patches[0].Made[0].By, patches[1].Made[0].By; first != "eve" || second != "api" {
		t.Errorf("the changes are by %q and %q", first, second)
	}
	if got := c.want(200, "GET", "/auditlog?limit=1&offset=1", "").body; !strings.Contains(got, `"user":"api"`) {
		t.Errorf("the log has %s", got)
	}
	if got := c.want(200, "GET", "/auditlog?limit=1", "").body; !strings.Contains(got, `"user":"eve"`) {
		t.Errorf("the log has %s", got)
	}
}

func TestCrossOriginRequests(t *testing.T) {
	a, c := serve(t, standin.Options{})
	send := func(method, path, origin string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, c.url+"/api/v1"+path, nil)
		require.NoError(t, err)
		r.Header.Set("Origin", origin)
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "PATCH")
		} else {
			r.Header.Set("Authorization", c.authorization)
		}
		resp, err := c.client.Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		return resp
	}
	const page = "https://soc.example:8443"
	for name, test := range map[string]struct {
		cors    string
		origin  string
		allowed bool
	}{
		"no origin is allowed at first":  {`{"any":false,"origins":[]}`, page, false},
		"an origin that was added":       {`{"any":false,"origins":["https://soc.example:8443"]}`, page, true},
		"not the same host's other port": {`{"any":false,"origins":["https://soc.example"]}`, page, false},
		"any origin":                     {`{"any":true,"origins":[]}`, "http://[::1]:80", true},
	} {
		t.Run(name, func(t *testing.T) {
			c.want(204, "PUT", "/service/apiaccess", `{"policy":"all","cors":`+test.cors+`}`)
			status, origin, methods := http.StatusForbidden, "", ""
			if test.allowed {
				status, origin, methods = http.StatusNoContent, test.origin, "DELETE, GET, PATCH"
			}
			asked := send(http.MethodOptions, "/emailgroups/1", test.origin)
			if got := asked.Header; asked.StatusCode != status || got.Get("Access-Control-Allow-Origin") != origin || got.Get("Access-Control-Allow-Methods") != methods {
				t.Errorf("the preflight is answered with %d and %v", asked.StatusCode, got)
			}
			for _, path := range []string{"/users", "/nothing"} {
				answer := send(http.MethodGet, path, test.origin)
				if got := answer.Header; got.Get("Access-Control-Allow-Origin") != origin || got.Get("Vary") != "Origin" {
					t.Errorf("%s is answered with %v", path, got)
				}
			}
		})
	}
	if n := a.Requests()["GET /users"]; n != 4 {
		t.Errorf("%d requests for users", n)
	}
}
