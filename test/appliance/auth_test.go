package appliance_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// token asks for an access token.
func (c *caller) token(id, secret, form string) (int, map[string]any) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), "POST", c.url+"/oauth2/token", strings.NewReader(form))
	require.NoError(c.t, err)
	r.SetBasicAuth(id, secret)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp := require.Value(c.client.Do(r))(c.t)
	defer resp.Body.Close()
	b := require.Value(io.ReadAll(resp.Body))(c.t)
	var body map[string]any
	require.NoError(c.t, json.Unmarshal(b, &body), string(b))
	return resp.StatusCode, body
}

const grant = "grant_type=client_credentials"

func TestTokens(t *testing.T) {
	var elapsed atomic.Int64
	a, c := serve(t, standin.Options{
		OAuth: &standin.OAuth{ClientID: "id", ClientSecret: "secret", Lifetime: time.Minute},
		Now:   func() time.Time { return epoch.Add(time.Duration(elapsed.Load())) },
	})
	t.Run("without a token everything is refused", func(t *testing.T) {
		c.want(401, "GET", "/service/version", "") // an API key that it does not have
	})
	t.Run("a token is accepted for as long as it says", func(t *testing.T) {
		status, body := c.token("id", "secret", grant)
		require.True(t, status == 200 && body["expires_in"] == 60.0 && body["token_type"] == "Bearer", status, body)
		c.authorization = "Bearer " + body["access_token"].(string)
		c.want(200, "GET", "/service/version", "")
		a.SetSkew(time.Hour) // the clock that people see is not what counts
		c.want(200, "GET", "/service/version", "")
		elapsed.Store(int64(time.Minute))
		c.want(401, "GET", "/service/version", "")
	})
	t.Run("a thousand tokens later it is dropped", func(t *testing.T) {
		_, body := c.token("id", "secret", grant)
		c.authorization = "Bearer " + body["access_token"].(string)
		for range 999 {
			c.token("id", "secret", grant)
		}
		c.want(200, "GET", "/service/version", "")
		c.token("id", "secret", grant)
		c.want(401, "GET", "/service/version", "")
	})
	t.Run("a wrong secret is an invalid client", func(t *testing.T) {
		status, body := c.token("id", "guess", grant)
		assert.True(t, status == 400 && body["error"] == "invalid_client", status, body)
	})
	t.Run("another grant is unsupported", func(t *testing.T) {
		status, body := c.token("id", "secret", "grant_type=password")
		assert.True(t, status == 400 && body["error"] == "unsupported_grant_type", status, body)
	})
}
