package appliance_test

import (
	"encoding/json"
	"net/http"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
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
	assert.Contains(t, eve.want(200, "GET", "/detections/"+mustJSON(t, mine)+"/notes", "").body, `"author":"eve"`, "the note is")
	patches := a.Patches()
	first, second := patches[0].Made[0].By, patches[1].Made[0].By
	assert.True(t, first == "eve" && second == "api", "the changes are by", first, second)
	assert.Contains(t, c.want(200, "GET", "/auditlog?limit=1&offset=1", "").body, `"user":"api"`, "the log has")
	assert.Contains(t, c.want(200, "GET", "/auditlog?limit=1", "").body, `"user":"eve"`, "the log has")
}

func TestCrossOriginRequests(t *testing.T) {
	a, c := serve(t, standin.Options{})
	send := func(method, path, origin string) *http.Response {
		t.Helper()
		r := require.Value(http.NewRequestWithContext(t.Context(), method, c.url+"/api/v1"+path, nil))(t)
		r.Header.Set("Origin", origin)
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "PATCH")
		} else {
			r.Header.Set("Authorization", c.authorization)
		}
		resp := require.Value(c.client.Do(r))(t)
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
			got := asked.Header
			assert.True(t, asked.StatusCode == status && got.Get("Access-Control-Allow-Origin") == origin && got.Get("Access-Control-Allow-Methods") == methods, asked.StatusCode, got)
			for _, path := range []string{"/users", "/nothing"} {
				answer := send(http.MethodGet, path, test.origin)
				got := answer.Header
				assert.True(t, got.Get("Access-Control-Allow-Origin") == origin && got.Get("Vary") == "Origin", path, "is answered with", got)
			}
		})
	}
	assert.Equal(t, a.Requests()["GET /users"], 4, "requests for users")
}
