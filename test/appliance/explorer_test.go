package appliance_test

import (
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/appliance/explorer"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestExplorerIsServed(t *testing.T) {
	_, c := serve(t, standin.Options{Product: "Acme"})
	c.authorization = "" // the page needs no credential
	// As on systems with an older list of types.
	require.NoError(t, mime.AddExtensionType(".js", "application/javascript"))
	for _, p := range []struct{ path, contentType, part string }{
		{"/explore", "text/html; charset=utf-8", "explorer.js"}, // is redirected
		{"/explore/", "text/html; charset=utf-8", "Acme apikey=KEY"},
		{"/explore/explorer.js", "text/javascript; charset=utf-8", "requestSnippetGenerator_ruby"},
		{"/explore/explorer.css", "text/css; charset=utf-8", ".samples"},
		{"/explore/swagger-ui-bundle.js", "text/javascript; charset=utf-8", "requestSnippets"},
		{"/explore/swagger-ui.css", "text/css; charset=utf-8", ".opblock"},
		{"/explore/favicon-32x32.png", "image/png", "PNG"},
		{"/explore/openapi.json", "application/json", `"/acme/version"`},
	} {
		got := c.want(http.StatusOK, "GET", p.path, "")
		assert.Equal(t, got.header.Get("Content-Type"), p.contentType, p.path)
		assert.Contains(t, got.body, p.part, p.path)
		policy := got.header.Get("Content-Security-Policy")
		assert.True(t, strings.Contains(policy, "default-src 'none'") && !strings.Contains(policy, "unsafe"), p.path, "the policy", policy)
	}
	got := c.want(http.StatusOK, "HEAD", "/explore/", "")
	assert.Equal(t, got.body, "", "the answer to HEAD has the body")
	got = c.want(http.StatusMethodNotAllowed, "POST", "/explore/", "")
	assert.Equal(t, got.header.Get("Allow"), "GET, HEAD", "it allows")
	c.want(http.StatusNotFound, "GET", "/explore/explorer.go", "")

	t.Run("without gzip", func(t *testing.T) {
		r := require.Value(http.NewRequestWithContext(t.Context(), "GET", c.url+explorer.Path+"swagger-ui.css", nil))(t)
		r.Header.Set("Accept-Encoding", "identity")
		resp := require.Value(c.client.Do(r))(t)
		defer resp.Body.Close()
		assert.Equal(t, resp.Header.Get("Content-Encoding"), "")
		assert.True(t, resp.ContentLength >= 100_000, resp.ContentLength, "bytes with the encoding")
	})
}

func TestEditions(t *testing.T) {
	for name, c := range map[string]struct {
		options  standin.Options
		edition  string
		explorer int
	}{
		"the default is the standard edition":     {standin.Options{}, standin.EditionStandard, http.StatusOK},
		"clients of the token endpoint use cloud": {standin.Options{OAuth: &standin.OAuth{}, APIKey: standin.DefaultAPIKey}, standin.EditionCloud, http.StatusNotFound},
		"a cloud edition with a key":              {standin.Options{Edition: standin.EditionCloud}, standin.EditionCloud, http.StatusNotFound},
		"a standard edition with a token endpoint": {
			standin.Options{Edition: standin.EditionStandard, OAuth: &standin.OAuth{}, APIKey: standin.DefaultAPIKey}, standin.EditionStandard, http.StatusOK,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, client := serve(t, c.options)
			var got struct{ Edition string }
			err := json.Unmarshal([]byte(client.want(http.StatusOK, "GET", "/service/edition", "").body), &got)
			assert.True(t, err == nil && got.Edition == c.edition, "the edition", got.Edition, err)
			client.authorization = ""
			client.want(c.explorer, "GET", "/explore/", "")
			client.want(c.explorer, "GET", "/explore/openapi.json", "")
		})
	}
}
