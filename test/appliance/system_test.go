package appliance_test

import (
	"net/http"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestIdentity(t *testing.T) {
	a, c := serve(t, standin.Options{})
	a.SetIdentity(standin.Identity{Host: "b.example", Address: "192.0.2.9", Firmware: "25.3"})
	const want = `{"display_host":"b.example","external_hostname":"b.example","hostname":"b.example","mgmt_ipaddr":"192.0.2.9","platform":"sensor","version":"25.3"}`
	assert.Equal(t, c.want(200, "GET", "/service", "").body, want, "the metadata are")
}

func TestProductWord(t *testing.T) {
	_, c := serve(t, standin.Options{Product: "AcmeNDR", APIKey: "k1"})
	c.authorization = "AcmeNDR apikey=k1"
	c.want(200, "GET", "/acmendr/version", "")
	c.want(404, "GET", "/service/version", "")
	c.authorization = "Service apikey=k1"
	c.want(401, "GET", "/acmendr/version", "")
}

func TestAuthorization(t *testing.T) {
	_, c := serve(t, standin.Options{})
	for name, header := range map[string]string{
		"no credential":               "",
		"another key":                 "Service apikey=" + standin.DefaultAPIKey + "x",
		"an empty key":                "Service apikey=",
		"the scheme in other letters": "service apikey=" + standin.DefaultAPIKey,
		"the key alone":               standin.DefaultAPIKey,
		"a token":                     "Bearer " + standin.DefaultAPIKey,
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			refused := *c
			refused.authorization = header
			got := refused.want(401, "GET", "/service/version", "")
			assert.Contains(t, got.body, `"error_message"`, "the body is")
			refused.want(401, "GET", "/nothing/such", "")
		})
	}
}

func TestRoutes(t *testing.T) {
	a, c := serve(t, standin.Options{})
	t.Run("a path outside of the interface is not found", func(t *testing.T) {
		got := require.Value(c.send("GET", "/detections", ""))(t)
		assert.Equal(t, got.status, 404)
	})
	t.Run("a wrong method is not allowed", func(t *testing.T) {
		for path, allowed := range map[string]string{
			"/detections/search": "POST", "/detections/5": "GET, PATCH", "/service/ticketing": "GET, PATCH",
		} {
			got := c.want(405, "DELETE", path, "")
			assert.Equal(t, got.header.Get("Allow"), allowed, path, "allows")
		}
	})
	t.Run("a body that is not JSON is refused", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", c.url+"/api/v1/detections/search", strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header.Set("Authorization", c.authorization)
		r.Header.Set("Content-Type", "text/plain")
		resp := require.Value(c.client.Do(r))(t)
		resp.Body.Close()
		assert.Equal(t, resp.StatusCode, http.StatusUnsupportedMediaType, "the status is")
	})
	t.Run("requests are counted by what they ask for", func(t *testing.T) {
		c.want(404, "GET", "/detections/77", "")
		got := a.Requests()
		assert.True(t, got["GET /detections/{id}"] == 1 && got["POST /detections/search"] == 1 && got["other"] != 0, "the counts are", got)
	})
}

func TestOldFirmware(t *testing.T) {
	a, c := serve(t, standin.Options{Firmware: "9.2.8.1", Seed: 1})
	a.AddMany(1)
	body := c.want(200, "POST", "/detections/search", `{}`).body
	for _, field := range []string{`"mod_time"`, `"create_time"`, `"url"`} {
		assert.NotContains(t, body, field, "is in")
	}
	c.want(400, "POST", "/detections/search", `{"mod_time":1}`)
	c.want(400, "POST", "/detections/search", sorted("mod_time", "asc"))
	assert.Contains(t, c.want(400, "POST", "/detections/search", sorted("id", "asc", "url", "asc")).body, "sort.1.field: url is unknown", "the reason")

	for _, firmware := range []string{"9.3.0.1", "10.0.0.0", "26.3.0.1"} {
		_, c := serve(t, standin.Options{Firmware: firmware})
		c.want(200, "POST", "/detections/search", `{"mod_time":1}`)
	}
}
