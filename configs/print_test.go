package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// secretive holds a secret, with sesame in it, wherever one may be.
const secretive = `
cluster: {name: c, nats: {url: "nats://user:sesame-23@n1:4222,nats://sesame-24@n2:4222", token: sesame-25}}
admin: {token: sesame-1}
appliances:
  - {name: a, url: "https://a.example", api_key: sesame-2, proxy: "http://user:sesame-3@proxy.example:3128"}
  - name: b
    url: https://b.example
    oauth: {token_url: "https://user:sesame-4@b.example/token?k=sesame-5", client_id: id, client_secret: sesame-6}
sinks:
  - {name: k, kafka: {brokers: ["k:9092"], sasl: {mechanism: plain, username: user, password: sesame-7}}}
  - {name: n, nats: {url: "nats://user:sesame-8@n1:4222, nats://sesame-9@n2:4222", token: sesame-10}}
  - {name: m, nats: {url: "nats://n1:4222", username: user, password: sesame-11}}
  - name: w
    webhook:
      url: "https://user:sesame-12@hooks.example/services/sesame-13-and-some-more?sig=sesame-14"
      headers: {X-Api-Key: sesame-15, Cookie: sesame-16, X-Auth-Token: sesame-17, X-Source: plain, Accept: text/plain}
      proxy: "http://sesame-19@proxy.example"
  - name: v
    webhook: {url: "https://hooks.example", headers: {Authorization: Bearer sesame-20}, sign: {secrets: [whsec_sesamesesamesesamesesamesesamesesame]}}
  - name: u
    webhook: {url: "https://hooks.example", auth: {username: user, password: sesame-21}}
  - name: p
    webhook: {preset: pagerduty, key: sesame-22}
  - name: b
    webhook: {url: "https://hooks.example", auth: {bearer: sesame-18}}
  - name: o
    webhook: {url: "https://hooks.example", auth: {oauth: {token_url: "https://user:sesame-26@id.example/token?k=sesame-27", client_id: id, client_secret: sesame-28}}}
`

func parse(t *testing.T, text string, environ ...string) *Config {
	t.Helper()
	config, err := Parse("test.yaml", []byte(text), environ)
	require.NoError(t, err)
	return config
}

// printed returns what Print writes.
func printed(t interface{ Fatal(...any) }, config *Config) string {
	var b strings.Builder
	if err := Print(&b, config); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestNothingPrintsASecret(t *testing.T) {
	config := parse(t, secretive)
	parts := []any{config, *config, &config, config.Cluster, *config.Cluster, config.Cluster.NATS, config.Hash()}
	for i := range config.Appliances {
		a := &config.Appliances[i]
		parts = append(parts, a, *a, a.APIKey, &a.APIKey, a.OAuth, a.Proxy)
	}
	for _, s := range config.Sinks {
		parts = append(parts, s, s.Kafka, s.NATS, s.Webhook, s.File)
		if s.Kafka != nil {
			parts = append(parts, *s.Kafka, s.Kafka.SASL)
		}
		if s.NATS != nil {
			parts = append(parts, *s.NATS, s.NATS.URL, &s.NATS.URL, s.NATS.Token)
		}
		if s.Webhook != nil {
			parts = append(parts, *s.Webhook, s.Webhook.URL, s.Webhook.Headers, &s.Webhook.Headers, s.Webhook.Auth, s.Webhook.Key, s.Webhook.Sign, s.Webhook.Sign.Secrets)
		}
	}
	parts = append(parts, struct{ unexported Secret }{config.Admin.Token})

	var out bytes.Buffer
	loggers := []*slog.Logger{slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))}
	ways := map[string]func(any) error{
		"fmt": func(v any) error {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%10.3v"} {
				fmt.Fprintf(&out, verb+"\n", v)
			}
			return nil
		},
		"json": func(v any) error { return json.NewEncoder(&out).Encode(v) },
		"yaml": func(v any) error { return yaml.NewEncoder(&out).Encode(v) },
		"slog": func(v any) error {
			for _, logger := range loggers {
				logger.Info("a part", "part", v, slog.Group("group", "part", v))
				logger.With("part", v).Info(fmt.Sprint(v))
			}
			return nil
		},
		"errors": func(v any) error {
			fmt.Fprintln(&out, fmt.Errorf("about %v: %w", v, io.EOF))
			return nil
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			out.Reset()
			for _, part := range parts {
				require.NoError(t, way(part))
			}
			assert.True(t, out.Len() != 0, "nothing was printed")
			refuseSecrets(t, out.String())
		})
	}
	t.Run("Print", func(t *testing.T) {
		out := printed(t, config)
		refuseSecrets(t, out)
		for _, want := range []string{
			"token: '***'", "api_key: '***'", "proxy: http://***@proxy.example:3128", "X-Source: '***'", "Accept: text/plain",
			"url: nats://***@n1:4222,nats://***@n2:4222", "Authorization: '***'",
			"url: https://***@hooks.example/***?***",
		} {
			assert.Contains(t, out, want)
		}
	})
}

// refuseSecrets looks for the secrets as text, in hexadecimal and as bytes.
func refuseSecrets(t *testing.T, text string) {
	t.Helper()
	for _, form := range []string{"sesame", fmt.Sprintf("%x", "sesame"), fmt.Sprintf("%X", "sesame"), "115 101 115 97"} {
		i := strings.Index(text, form)
		assert.True(t, i < 0, "a secret was printed: …", text, "…")
	}
}

// Every mistake that can be made near a secret must not show it.
func TestNoErrorShowsASecret(t *testing.T) {
	for name, text := range map[string]string{
		"a list for a secret":         `admin: {token: [sesame]}`,
		"keys for a secret":           `admin: {token: {sesame: sesame}}`,
		"no blank behind a colon":     `admin: {token:sesame}`,
		"no blank, a line of itself":  "admin:\n  token:sesame\n",
		"an alias":                    `admin: {token: *sesame}`,
		"a tag":                       `admin: {token: !sesame }`,
		"a bad URL":                   `appliances: [{url: "https://user:sesame/x@a.example:b"}]`,
		"a user in a URL":             `appliances: [{url: "https://user:sesame@a.example"}]`,
		"a bad proxy":                 `appliances: [{proxy: "user:sesame@proxy"}]`,
		"a bad list of servers":       `sinks: [{nats: {url: "nats://user:ses,ame@n1:4222"}}]`,
		"a bad hook":                  `sinks: [{webhook: {url: "ftp://user:sesame@a.example"}}]`,
		"a bad header":                `sinks: [{webhook: {url: "https://a", headers: {Authorization: "sesame\n"}}}]`,
		"headers that are none":       `sinks: [{webhook: {url: "https://a", headers: "Authorization: sesame"}}]`,
		"a header without its value":  `sinks: [{webhook: {url: "https://a", headers: {"Authorization: sesame"}}}]`,
		"two of a kind":               `sinks: [{webhook: {url: "https://a", auth: {bearer: sesame, username: user, password: sesame}}}]`,
		"a key of no preset":          `sinks: [{webhook: {url: "https://a", key: sesame}}]`,
		"a key that the preset lacks": `sinks: [{webhook: {preset: teams, url: "https://a/sesame", key: sesame}}]`,
		"two of a kind, by a preset":  `sinks: [{webhook: {preset: splunk_hec, url: "https://u:sesame@a/x", key: sesame, auth: {bearer: sesame}}}]`,
		"a table that is none":        `tickets: {webhooks: {jira: {secret: sesame, map: {statuses: {a: b}}}}}`,
		"no such file":                `appliances: [{api_key: sesame, api_key_file: /none}]`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("test.yaml", []byte(text), []string{
				"NDRBRIDGE_SINKS_0_WEBHOOK_HEADERS=sesame",
				"NDRBRIDGE_ADMIN_TOKENS=sesame",
			})
			require.True(t, err != nil, "no")
			for _, form := range []string{"sesame", "ame@n1"} {
				assert.NotContains(t, err.Error(), form, "a secret was shown", err)
			}
		})
	}
}

func TestPrintReadsBackAsTheSame(t *testing.T) {
	key := writeFile(t, "a key")
	for name, text := range map[string]string{
		"an example":                      strings.Replace(string(Example()), "https://hooks.example/x", "https://hooks.example", 1), // the path of a webhook is hidden
		"streams":                         `{appliances: [{name: a, url: 'https://a', api_key: x, detections: {enrich: [format, link]}, audit: {enabled: false}, records: [{name: r, types: ["~dns"], recheck: 0, filter: {operator: not, rules: [{field: a, operator: in, operand: [1.10, "1.10", 9007199254740993, true, "true", 2026-01-31, "null", "~"]}, {field: b, operator: ">=", operand: {type: x, value: -1e3}}, {field: c, operator: "=", operand: ""}]}}]}], sinks: [{name: b, file: {path: '-'}}]}`,
		"ticket systems":                  `{tickets: {enabled: true, webhooks: {jira: {secret_file: ` + key + `, map: {statuses: {Waiting: ignore, "6": closed}, resolutions: {"*": ignore}}}, generic: [{name: otrs, secret_file: ` + key + `, verify: basic, username: u, map: {key: [a.b, c.0]}}]}}, appliances: [{name: a, url: 'https://a', api_key_file: ` + key + `}], sinks: [{name: b, file: {path: '-'}}]}`,
		"texts that look like references": `{state: '$${HOME}', appliances: [{name: a, url: 'https://a', api_key: x, records: [{name: r, filter: {field: a, operator: "=", operand: '$$${X}'}}]}], sinks: [{name: b, file: {path: '-'}}]}`,
		"values that look alike":          "{state: '5', log: {level: 'debug'}, appliances: [{name: 'true', url: 'https://a', api_key: x, detections: {start: -7d, filter: {types: ['1', 'null', ''' ']}}}], sinks: [{name: a, kafka: {brokers: ['a:1'], tls: {}}}, {name: b, file: {path: '-'}}]}",
	} {
		t.Run(name, func(t *testing.T) {
			variable := "NDRBRIDGE_APPLIANCES_0_API_KEY_FILE=" + key
			config := parse(t, text, variable)
			out := printed(t, config)
			assert.DeepEqual(t, config, parse(t, out, variable), "became another configuration", out)
		})
	}
}

func TestURLPathIsShownIfItContainsNoKey(t *testing.T) {
	for preset, want := range map[string]string{
		"splunk_hec":    "https://***@a.example/services/x?***",
		"elasticsearch": "https://***@a.example/services/x?***",
		"teams":         "https://***@a.example/***?***",
		"discord":       "https://***@a.example/***?***",
		"slack":         "https://***@a.example/***?***",
		"":              "https://***@a.example/***?***",
	} {
		config := Config{Sinks: []Sink{{Webhook: &Webhook{URL: NewURL("https://u:p@a.example/services/x?k=v"), Preset: preset}}}}
		var out bytes.Buffer
		err := Print(&out, &config)
		assert.True(t, err == nil && strings.Contains(out.String(), "url: "+want+"\n"), preset, err, &out)
	}
}

func TestURLString(t *testing.T) {
	for _, test := range []struct {
		name string
		url  string
		want string
	}{
		{"shows scheme, host and port", "https://splunk.example:8088/", "https://splunk.example:8088/"},
		{"hides a user name and a password", "https://user:pass@a.example/x", "https://***@a.example/***"},
		{"hides a user name, which may be a token", "nats://token@a:4222", "nats://***@a:4222"},
		{"hides the query", "https://a.example/x?sig=y", "https://a.example/***?***"},
		{"hides the path, however short", "https://a.example/T0/abc", "https://a.example/***"},
		{"hides all of what it cannot read", "https://user:p/w@a", "***"},
		{"hides in each of several", "nats://u:p@a:1,nats://b:2", "nats://***@a:1,nats://b:2"},
		{"is empty for an empty one", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, NewURL(test.url).String(), test.want)
		})
	}
}
