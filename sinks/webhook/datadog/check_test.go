package datadog

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/presettest"
)

func TestKeysAreCheckedAtTheAPIOfTheSite(t *testing.T) {
	const intake = "http-intake.logs.site.example"
	api := presettest.API("DD-API-KEY", presettest.CheckKey, func(w http.ResponseWriter, _ *http.Request) {
		presettest.JSON(w, http.StatusForbidden, `{"errors":["Forbidden"]}`)
	},
		map[string]string{"GET /api/v1/validate": `200 {"valid":true}`})
	// The names are fictitious: they are reached through a proxy, which receives the host.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "api.site.example" {
			t.Errorf("%s was asked", r.Host)
		}
		api.ServeHTTP(w, r)
	}))
	defer server.Close()
	proxy, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		host, key string
		want      findingtest.Row
	}{
		"a valid key":                  {intake, presettest.CheckKey, presettest.Row("key", finding.OK, "knows", "")},
		"a wrong key":                  {intake, "wrong-key", presettest.Row("key", finding.Failed, "403", "application key")},
		"a relay, which is not a site": {"relay.example", presettest.CheckKey, presettest.Row("delivery", finding.Untried, "cannot be checked", "ndrbridge render")},
	} {
		t.Run(name, func(t *testing.T) {
			preset, err := openAt(webhook.PresetSettings{URL: "http://" + test.host + "/api/v2/logs", Key: test.key}, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			s, err := webhook.New(webhook.Options{URL: "http://" + test.host + "/api/v2/logs", Proxy: proxy, Preset: preset})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			found := s.Check(t.Context(), time.Now)
			findingtest.Expect(t, found, test.want)
			if text := findingtest.Lines(found); strings.Contains(text, test.key) {
				t.Errorf("a secret is shown: %s", text)
			}
		})
	}
}
