package configs

import (
	"strings"
	"testing"
	"time"

	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/test/assert"
)

func TestPresetsGiveDefaults(t *testing.T) {
	const elastic = `webhook: {preset: elasticsearch, url: "https://e.example/ndr"`
	chat := Lag{MaxAge: Duration(6 * time.Hour), MaxBytes: 512 * MiB, Policy: LagSkip}
	plain := parse(t, sink(`webhook: {url: "https://h.example/x"}`)).Sinks[0]
	for _, test := range []struct {
		name, keys string
		change     func(*Sink) // what differs from a webhook without a preset
	}{
		{"slack skips old events", `webhook: {preset: slack, url: "https://h.example/x"}`, func(s *Sink) { s.Lag = chat }},
		{"teams does, too", `webhook: {preset: teams, url: "https://h.example/x"}`, func(s *Sink) { s.Lag = chat }},
		{"discord does, too", `webhook: {preset: discord, url: "https://h.example/x"}`, func(s *Sink) { s.Lag = chat }},
		{"what is set of lag stays, and the rest is the preset's", `webhook: {preset: slack, url: "https://h.example/x"}, lag: {max_age: 1h}`,
			func(s *Sink) { s.Lag = chat; s.Lag.MaxAge = Duration(time.Hour) }},
		{"a bound can be taken away", `webhook: {preset: slack, url: "https://h.example/x"}, lag: {max_bytes: 0}`,
			func(s *Sink) { s.Lag = chat; s.Lag.MaxBytes = 0 }},
		{"a key without a value is not set", `webhook: {preset: slack, url: "https://h.example/x"}, lag: {max_age: , policy: ~}`,
			func(s *Sink) { s.Lag = chat }},
		{"a chat that is to block has no bounds", `webhook: {preset: slack, url: "https://h.example/x"}, lag: {policy: block}`, func(*Sink) {}},
		{"a bot of slack edits its messages", `webhook: {preset: slack, url: "https://h.example/x", key: k, channel: C1}`, func(s *Sink) {
			s.Lag = chat
			s.Webhook.Key, s.Webhook.Channel, s.Webhook.Updates = NewSecret("k"), "C1", "edit"
		}},
		{"a bot of slack may do otherwise", `webhook: {preset: slack, url: "https://h.example/x", key: k, channel: C1, updates: thread}`, func(s *Sink) {
			s.Lag = chat
			s.Webhook.Key, s.Webhook.Channel, s.Webhook.Updates = NewSecret("k"), "C1", "thread"
		}},
		{"pagerduty knows its address", `webhook: {preset: pagerduty, key: k}`, func(s *Sink) {
			s.Webhook.URL, s.Webhook.Key = NewURL("https://events.pagerduty.com/v2/enqueue"), NewSecret("k")
		}},
		{"pagerduty may have another", `webhook: {preset: pagerduty, key: k, url: "https://events.eu.pagerduty.com/v2/enqueue"}`, func(s *Sink) {
			s.Webhook.URL, s.Webhook.Key = NewURL("https://events.eu.pagerduty.com/v2/enqueue"), NewSecret("k")
		}},
		{"splunk_hec waits for the indexer", `webhook: {preset: splunk_hec, url: "https://h.example", key: k}`, func(s *Sink) {
			s.Webhook.URL, s.Webhook.Key = NewURL("https://h.example"), NewSecret("k")
			s.Batch.MaxBytes, s.Webhook.Timeout, s.Webhook.Concurrency = 4*MiB, Duration(5*time.Minute), 8
		}},
		{"datadog is sent much at once, compressed", `webhook: {preset: datadog, url: "https://h.example/x", key: k, tags: [a:b]}`, func(s *Sink) {
			s.Webhook.Key, s.Webhook.Tags = NewSecret("k"), []string{"a:b"}
			s.Batch.MaxBytes, s.Webhook.Gzip, s.Webhook.Concurrency = 4*MiB, true, 4
		}},
		{"elasticsearch is, too", elastic + `}`, func(s *Sink) {
			s.Webhook.URL = NewURL("https://e.example/ndr")
			s.Batch.MaxBytes, s.Webhook.Gzip, s.Webhook.Concurrency = 4*MiB, true, 4
		}},
		{"sentinel is, too, and asks for tokens of Azure Monitor", `webhook: {preset: sentinel, url: "https://e.example", rule_id: dcr-00000000000000000000000000000000, auth: {oauth: {token_url: "https://t", client_id: i, client_secret: s}}}`, func(s *Sink) {
			s.Webhook.URL, s.Webhook.RuleID = NewURL("https://e.example"), "dcr-00000000000000000000000000000000"
			s.Webhook.Auth.OAuth = &WebhookOAuth{Style: "auto", ClientCredentials: ClientCredentials{
				TokenURL: NewURL("https://t"), ClientID: "i", ClientSecret: NewSecret("s"), Scope: "https://monitor.azure.com//.default",
			}}
			s.Batch.MaxBytes, s.Webhook.Gzip, s.Webhook.Concurrency = 4*MiB, true, 8
		}},
		{"what is set stays, even where it is what a webhook has without a preset", elastic + `, gzip: false, concurrency: 32}, batch: {max_bytes: 1MiB}`, func(s *Sink) {
			s.Webhook.URL, s.Webhook.Concurrency = NewURL("https://e.example/ndr"), 32
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := parse(t, sink(test.keys))
			got, want, webhook := config.Sinks[0], plain, *plain.Webhook
			want.Webhook = &webhook
			webhook.Preset = got.Webhook.Preset
			webhook.Concurrency = 1 // unless it is a collector
			test.change(&want)
			assert.DeepEqual(t, got, want, got.Webhook, want.Webhook)
			printedText := printed(t, config)
			if again := parse(t, printedText).Sinks[0]; again.Lag != got.Lag || again.Batch != got.Batch || again.Webhook.Gzip != got.Webhook.Gzip || again.Webhook.Concurrency != got.Webhook.Concurrency || again.Webhook.Timeout != got.Webhook.Timeout {
				t.Errorf("what is printed has other values:\n%s", printedText)
			}
		})
	}
	t.Run("the quarter is that of the journal as it is configured", func(t *testing.T) {
		s := parse(t, "journal: {max_bytes: 100MiB}\n"+sink(`webhook: {preset: slack, url: "https://h"}`)).Sinks[0]
		assert.Equal(t, s.Lag.MaxBytes, 25*MiB)
	})
	t.Run("a sink other than a webhook has no such defaults", func(t *testing.T) {
		s := parse(t, valid).Sinks[0]
		assert.Equal(t, s.Lag, Lag{Policy: LagBlock})
	})
}

func TestOneEventARequestHasManyRequestsInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		keys string
		want int
	}{
		"a CloudEvent a request":    {`webhook: {url: "https://h.example/x"}`, 32},
		"a CloudEvent in headers":   {`webhook: {url: "https://h.example/x"}, mode: binary`, 32},
		"a template":                {`webhook: {url: "https://h.example/x", template: "{}"}`, 32},
		"another number":            {`webhook: {url: "https://h.example/x", concurrency: 2}`, 2},
		"one batch after the other": {`webhook: {url: "https://h.example/x"}, mode: batch`, 1},
		"a divided batch":           {`webhook: {url: "https://h.example/x", concurrency: 3}, mode: batch`, 3},
		"one ticket after the other": {
			`webhook: {url: "https://h.example", auth: {username: u, password: p}, ticket: {system: jira, project: SEC, link: false}}, match: "true"`, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, parse(t, sink(c.keys)).Sinks[0].Webhook.Concurrency, c.want, "concurrency")
		})
	}
}

func TestOnErrorDefaultDependsOnRedact(t *testing.T) {
	for name, c := range map[string]struct{ keys, want string }{
		"without a match there is nothing to decide": {`redact: [detection.title]`, ""},
		"by itself it is sent":                       {`match: "true"`, "send"},
		"beside redact it becomes a dead letter":     {`match: "true", redact: [detection.title]`, "dead_letter"},
		"what is set holds":                          {`match: "true", redact: [detection.title], on_error: send`, "send"},
		"it can be dropped":                          {`match: "true", on_error: drop`, "drop"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{`webhook: {url: "https://h.example/x"}`, `file: {path: "-"}`} {
				assert.Equal(t, parse(t, sink(kind+", "+c.keys)).Sinks[0].OnError, c.want, kind, "on_")
			}
		})
	}
}

func TestEveryPresetCanBeConfigured(t *testing.T) {
	for _, preset := range presets.All() {
		t.Run(preset.Name, func(t *testing.T) {
			keys := "preset: " + preset.Name + ", url: \"" + preset.Sample.URL + "\""
			if preset.Sample.RuleID != "" {
				keys += ", rule_id: " + preset.Sample.RuleID
			}
			if preset.OAuthScope != "" {
				_, err := Parse("f.yaml", []byte(sink("webhook: {"+keys+"}")), nil)
				assert.True(t, err != nil && strings.Contains(err.Error(), "auth.oauth: is missing"), "without OAuth", err)
				keys += `, auth: {oauth: {token_url: "https://id.example/token", client_id: i, client_secret: s}}`
			}
			withKey := keys + ", key: " + preset.Sample.Key
			parse(t, sink("webhook: {"+withKey+"}"))
			if !preset.KeyRequired {
				return
			}
			_, err := Parse("f.yaml", []byte(sink("webhook: {"+keys+"}")), nil)
			assert.True(t, err != nil && strings.Contains(err.Error(), preset.Key), "without its key", err)
		})
	}
}

// TestEveryKeyHasItsVariable covers each key; here variables stand where defaults depend on others.
func TestPresetsInTheEnvironment(t *testing.T) {
	sinks := parse(t, valid,
		"NDRBRIDGE_SINKS_1_NAME=chat",
		"NDRBRIDGE_SINKS_1_WEBHOOK_URL=https://hooks.example/x",
		"NDRBRIDGE_SINKS_1_WEBHOOK_PRESET=slack",
		"NDRBRIDGE_SINKS_1_LAG_MAX_AGE=2h",
		"NDRBRIDGE_SINKS_2_NAME=logs",
		"NDRBRIDGE_SINKS_2_WEBHOOK_URL=https://intake.example/api/v2/logs",
		"NDRBRIDGE_SINKS_2_WEBHOOK_PRESET=datadog",
		"NDRBRIDGE_SINKS_2_WEBHOOK_KEY=k",
		"NDRBRIDGE_SINKS_2_WEBHOOK_GZIP=false",
	).Sinks
	assert.Equal(t, sinks[1].Lag, (Lag{MaxAge: Duration(2 * time.Hour), MaxBytes: 512 * MiB, Policy: LagSkip}), "lag")
	logs := sinks[2]
	assert.True(t, !logs.Webhook.Gzip && logs.Batch.MaxBytes == 4*MiB, logs.Webhook)
}

func TestPresetKeyErrors(t *testing.T) {
	const at = "sinks[0].webhook"
	expectErrors(t, func(text string) string { return sink("webhook: {" + text + "}") }, []mistake{
		{"a preset that is none", `preset: slak, url: "https://h"`, at + `.preset: "slak" is not one of ` + strings.Join(presets.Names(), ", ") + `; did you mean slack?`},
		{"no address, where the preset knows none", `preset: slack`, at + ".url: is missing"},
		{"a key without a preset", `url: "https://h", key: k`, at + ".key: requires preset"},
		{"the file of one", `url: "https://h", key_file: f.yaml`, at + ".key_file: requires preset"},
		{"a channel without a preset", `url: "https://h", channel: C1`, at + ".channel: requires preset"},
		{"tags without a preset", `url: "https://h", tags: [a:b]`, at + ".tags: requires preset"},
		{"a bot without a channel", `preset: slack, url: "https://h", key: k`, at + ".channel: is missing; a bot (key) requires the id"},
		{"a channel without a bot", `preset: slack, url: "https://h", channel: C1`, at + ".channel: is set without key_file, a bot token"},
		{"updates without a bot", `preset: slack, url: "https://h", updates: edit`, at + ".updates: is set without key_file, a bot token: an incoming webhook cannot change its messages"},
		{"updates without a preset", `url: "https://h", updates: edit`, at + ".updates: requires preset"},
		{"updates of another preset", `preset: datadog, url: "https://h", key: k, updates: edit`, at + ".updates: is not supported by preset datadog, which supports key, service, tags"},
		{"updates that are none", `preset: slack, url: "https://h", key: k, channel: C1, updates: delete`, at + `.updates: "delete" is not one of edit, thread, post`},
		{"a key where the URL holds all", `preset: teams, url: "https://h", key: k`, at + ".key: is not supported by preset teams, which takes everything from url"},
		{"an index of a chat", `preset: discord, url: "https://h", index: i`, at + ".index: is not supported by preset discord"},
		{"a key of another preset", `preset: slack, url: "https://h", source_type: s`, at + ".source_type: is not supported by preset slack, which supports key, channel"},
		{"tags of another preset", `preset: splunk_hec, url: "https://h", key: k, tags: [a]`, at + ".tags: is not supported by preset splunk_hec, which supports key, index, source_type"},
		{"a service of another preset", `preset: pagerduty, key: k, service: s`, at + ".service: is not supported by preset pagerduty, which supports key"},
		{"no routing key", `preset: pagerduty`, at + ".key_file: is missing; preset pagerduty needs the routing key: set it, or the variable NDRBRIDGE_SINKS_0_WEBHOOK_KEY_FILE"},
		{"no collector's token", `preset: splunk_hec, url: "https://h"`, at + ".key_file: is missing; preset splunk_hec needs the collector token"},
		{"no API key", `preset: datadog, url: "https://h"`, at + ".key_file: is missing; preset datadog needs an API key"},
		{"a key twice", `preset: datadog, url: "https://h", key: k, key_file: f`, at + ".key: is set, and so is key_file"},
		{"another method", `preset: slack, url: "https://h", method: PUT`, at + `.method: "PUT" is not supported by preset slack, which supports POST`},
		{"a bearer token beside a bot's", `preset: slack, url: "https://h", key: k, channel: C1, auth: {bearer: b}`, at + ".auth: is set, and so is key, which preset slack sends in the Authorization header"},
		{"a bearer token beside the collector's", `preset: splunk_hec, url: "https://h", key: k, auth: {bearer: b}`, at + ".auth: is set, and so is key"},
		{"a password beside an API key", `preset: elasticsearch, url: "https://h/i", key: k, auth: {username: u, password: p}`, at + ".auth: is set, and so is key"},
		{"a header beside an API key", `preset: elasticsearch, url: "https://h/i", key: k, headers: {authorization: x}`, at + ".headers.authorization: is set, and so is key"},
		{"a user name in the URL beside an API key", `preset: elasticsearch, url: "https://u:p@h/i", key: k`, at + ".url: has a user name, and key is set"},
		{"a collector elsewhere", `preset: splunk_hec, url: "https://h/services/receivers", key: k`, at + ".url: has a path other than that of an event collector"},
		{"no index", `preset: elasticsearch, url: "https://h/_bulk"`, at + ".url: has no index"},
		{"a tag with a blank", `preset: datadog, url: "https://h", key: k, tags: [a:b, "c d"]`, at + `.tags[1]: "c d" is not a tag`},
	})
	expectErrors(t, sink, []mistake{
		{"batches of CloudEvents", `webhook: {preset: slack, url: "https://h"}, mode: batch`, `sinks[0].mode: "batch" is not supported with a preset, which uses the service's own protocol`},
		{"CloudEvents in headers", `webhook: {preset: slack, url: "https://h"}, mode: binary`, `sinks[0].mode: "binary" is not supported with a preset`},
		{"a chat that is to skip, but when", `webhook: {preset: slack, url: "https://h"}, lag: {max_age: 0, max_bytes: 0}`, "sinks[0].lag.policy: is skip without a limit"},
	})
	t.Run("other credentials are taken where the preset has none of its own", func(t *testing.T) {
		parse(t, sink(`webhook: {preset: elasticsearch, url: "https://h/i", auth: {username: u, password: p}}`))
		parse(t, sink(`webhook: {preset: datadog, url: "https://h", key: k, auth: {bearer: of-a-proxy}}`))
	})
}
