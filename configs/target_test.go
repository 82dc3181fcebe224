package configs_test

import (
	"testing"

	"ndrbridge/configs"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTargetOfASinkHasNoSecrets(t *testing.T) {
	for _, c := range []struct{ name, sink, preset, target string }{
		{"brokers", `kafka: {brokers: ["a:9092", "b:9092"]}`, "", "a:9092, b:9092"},
		{"servers with a password in each URL", `nats: {url: "nats://me:secret@a:4222, nats://b:4222"}`, "", "a:4222, b:4222"},
		{"a token in a path", `webhook: {url: "https://me:secret@hooks.example/services/secret?key=secret#secret"}`, "", "hooks.example"},
		{"a preset", `webhook: {preset: slack, url: "https://hooks.example:8443/services/secret"}`, "slack", "hooks.example:8443"},
		{"the default URL of a preset", `webhook: {preset: pagerduty, key: 0123456789abcdef0123456789abcdef}`, "pagerduty", "events.pagerduty.com"},
		{"a ticket system", `webhook: {url: "https://it.example", auth: {username: me, password: secret}, ticket: {system: jira, project: SEC}}, match: 'event.action == "created"'`, "jira", "it.example"},
		{"a syslog server", `syslog: {address: "logs.example:6514", network: tls}`, "", "logs.example:6514"},
		{"a file", `file: {path: /var/log/events.jsonl}`, "", "/var/log/events.jsonl"},
		{"standard output", `file: {path: "-"}`, "", "standard output"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "appliances:\n  - {name: hq, url: \"https://sensor.example\", api_key: k}\nsinks:\n  - {name: s, " + c.sink + "}\ntickets: {enabled: true, webhooks: {jira: {secret: s}}}\n"
			config := require.Value(configs.Parse("f.yaml", []byte(text), nil))(t)
			s := config.Sinks[0]
			assert.Equal(t, s.Preset(), c.preset)
			assert.Equal(t, s.Target(), c.target)
		})
	}
}
