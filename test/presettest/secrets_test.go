package presettest_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

func TestNoErrorOfAPresetShowsASecret(t *testing.T) {
	const key = `sesame/+&"<%>sesame`
	type test struct {
		name string
		open func(webhook.PresetSettings) (*webhook.Preset, error)
		webhook.PresetSettings
	}
	var tests []test
	for _, p := range presets.All() {
		if !p.KeyRequired {
			tests = append(tests, test{p.Name, p.Open, webhook.PresetSettings{RuleID: p.Sample.RuleID}})
		}
		if p.Key != "" {
			tests = append(tests, test{p.Name + " with its key", p.Open, webhook.PresetSettings{Key: key, Channel: "C1"}})
		}
	}
	inJSON := func(repeated string) string {
		text, _ := json.Marshal(map[string]any{ // texts and numbers cannot fail
			"ok": false, "error": repeated, "needed": repeated, "message": repeated, "text": repeated, "code": 5, "status": "invalid event", "errors": []any{repeated},
			"items": []any{map[string]any{"create": map[string]any{"status": 400, "error": map[string]any{"type": repeated, "reason": repeated}}}},
		})
		return string(text)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var status int
			var form func(string) string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				w.Header().Set("Location", "https://elsewhere.example"+r.RequestURI)
				w.WriteHeader(status)
				fmt.Fprint(w, form(fmt.Sprintf("%s %s %s %s", r.Header.Get("Authorization"), r.RequestURI, body, r.Header)))
			}))
			defer server.Close()
			address := server.URL + "/services/collector/sesame-and-more?k=" + url.QueryEscape(key)
			test.URL = address
			p := require.Value(test.open(test.PresetSettings))(t)
			p.RequestsPerSecond = 0
			s := require.Value(webhook.New(webhook.Options{URL: address, Preset: p}))(t)
			defer s.Close()
			failures := 0
			for _, status = range []int{200, 202, 301, 400, 401, 403, 404, 408, 413, 422, 429, 500, 503} {
				for _, form = range []func(string) string{strings.TrimSpace, inJSON, html.EscapeString, url.QueryEscape, strconv.Quote} {
					err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
					if err == nil {
						continue
					}
					failures++
					assert.NotContains(t, err.Error(), "sesame", status, "the error shows a secret", err)
				}
			}
			assert.True(t, failures >= 50, failures, "failures")
		})
	}
}
