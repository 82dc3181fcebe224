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

	"ndrbridge/sinks/sinktest"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/datadog"
	"ndrbridge/sinks/webhook/discord"
	"ndrbridge/sinks/webhook/elasticsearch"
	"ndrbridge/sinks/webhook/pagerduty"
	"ndrbridge/sinks/webhook/slack"
	"ndrbridge/sinks/webhook/splunk"
	"ndrbridge/sinks/webhook/teams"
)

// unlimited is a preset without a rate limit.
type unlimited struct{ webhook.Preset }

func (p unlimited) Service() webhook.Service {
	service := p.Preset.Service()
	service.RequestsPerSecond = 0
	return service
}

func TestNoErrorOfAPresetShowsASecret(t *testing.T) {
	const key = `sesame/+&"<%>sesame`
	type made struct {
		webhook.Preset
		err error
	}
	of := func(p webhook.Preset, err error) made { return made{p, err} }
	presets := map[string]func(url string) made{
		"slack": func(string) made { return of(slack.New(slack.Options{})) },
		"bot": func(url string) made {
			return of(slack.New(slack.Options{URL: url + "/api/chat.postMessage", Token: key, Channel: "C1"}))
		},
		"teams":         func(string) made { return made{teams.Preset{}, nil} },
		"discord":       func(url string) made { return of(discord.New(url)) },
		"pagerduty":     func(url string) made { return of(pagerduty.New(pagerduty.Options{URL: url, RoutingKey: key})) },
		"splunk_hec":    func(url string) made { return of(splunk.New(splunk.Options{URL: url, Token: key})) },
		"elasticsearch": func(url string) made { return of(elasticsearch.New(elasticsearch.Options{URL: url, APIKey: key})) },
		"datadog":       func(string) made { return of(datadog.New(datadog.Options{APIKey: key})) },
	}
	inJSON := func(repeated string) string {
		text, _ := json.Marshal(map[string]any{ // texts and numbers cannot fail
			"ok": false, "error": repeated, "needed": repeated, "message": repeated, "text": repeated, "code": 5, "status": "invalid event", "errors": []any{repeated},
			"items": []any{map[string]any{"create": map[string]any{"status": 400, "error": map[string]any{"type": repeated, "reason": repeated}}}},
		})
		return string(text)
	}
	for name, preset := range presets {
		t.Run(name, func(t *testing.T) {
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
			p := preset(address)
			if p.err != nil {
				t.Fatal(p.err)
			}
			s, err := webhook.New(webhook.Options{URL: address, Preset: unlimited{p.Preset}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			failures := 0
			for _, status = range []int{200, 202, 301, 400, 401, 403, 404, 408, 413, 422, 429, 500, 503} {
				for _, form = range []func(string) string{strings.TrimSpace, inJSON, html.EscapeString, url.QueryEscape, strconv.Quote} {
					err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
					if err == nil {
						continue
					}
					failures++
					if strings.Contains(err.Error(), "sesame") {
						t.Errorf("%d: the error shows a secret: %v", status, err)
					}
				}
			}
			if failures < 50 {
				t.Errorf("%d failures", failures)
			}
		})
	}
}
