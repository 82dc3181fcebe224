package configs

import (
	"strings"
	"testing"

	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/test/assert"
	"ndrbridge/transform/format"
)

func TestFormatsAreThoseOfTheEncoder(t *testing.T) {
	for _, name := range format.Names() {
		assert.Equal(t, parse(t, sink(`file: {path: "-"}, format: `+string(name))).Sinks[0].Format, string(name), name)
	}
	assert.Equal(t, parse(t, sink(`file: {path: "-"}`)).Sinks[0].Format, string(format.CloudEvents), "without the key the format is")
}

func TestFormatIsChecked(t *testing.T) {
	const (
		at   = "sinks[0].format: "
		hook = `webhook: {url: "https://h"`
	)
	for _, test := range []struct{ name, keys, want string }{
		{"an unknown format", `file: {path: "-"}, format: ocsff`, at + `"ocsff" is not one of cloudevents, ocsf, ecs, cef, leef; did you mean ocsf?`},
		{"attributes in headers of Kafka", `kafka: {brokers: ["a:1"]}, mode: binary, format: ocsf`, at + `"ocsf" cannot be combined with mode binary, which is that of CloudEvents; leave mode out`},
		{"attributes in headers of NATS", `nats: {url: "nats://a"}, mode: binary, format: cef`, at + `"cef" cannot be combined with mode binary`},
		{"attributes in headers of a webhook", hook + `}, mode: binary, format: ecs`, at + `"ecs" cannot be combined with mode binary`},
		{"a template", hook + `, template: "{}"}, format: ecs`, at + `"ecs" cannot be combined with webhook.template, which renders the body; keep one of them`},
		{"tickets", hook + `, ticket: {system: jira, project: SEC, link: false}}, format: leef`, at + `"leef" is not supported with ticket, which uses the system's own protocol; leave it out`},
		{"a chat", hook + `, preset: slack}, format: ocsf`, at + `"ocsf" is not supported by preset slack, which sends messages of its own; leave it out`},
		{"a batch encoding without batches", hook + `, batch_encoding: ndjson}`, "sinks[0].webhook.batch_encoding: requires mode batch; set mode to batch, or leave it out"},
		{"a batch encoding of text", hook + `, batch_encoding: ndjson}, mode: batch, format: cef`, "sinks[0].webhook.batch_encoding: is not supported with format cef, whose documents are lines of text; leave it out"},
		{"an unknown batch encoding", hook + `, batch_encoding: lines}, mode: batch`, `sinks[0].webhook.batch_encoding: "lines" is not one of json, ndjson`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(sink(test.keys)), nil)
			errs, _ := err.(Errors)
			assert.True(t, len(errs) == 1 && strings.Contains(err.Error(), test.want), err, "want one with", test.want)
		})
	}
	for name, keys := range map[string]string{
		"a document a record":           `kafka: {brokers: ["a:1"]}, format: ocsf`,
		"a document a message":          `nats: {url: "nats://a"}, format: leef`,
		"a line of text a request":      hook + `}, format: cef`,
		"a batch of lines of text":      hook + `}, mode: batch, format: cef`,
		"an array":                      hook + `, batch_encoding: json}, mode: batch, format: ocsf`,
		"a batch of lines":              hook + `, batch_encoding: ndjson}, mode: batch, format: ecs`,
		"CloudEvents in lines":          hook + `, batch_encoding: ndjson}, mode: batch`,
		"the default with a template":   hook + `, template: "{}"}, format: cloudevents`,
		"the default in headers":        hook + `}, mode: binary, format: cloudevents`,
		"signed documents":              hook + `, sign: {secrets: [whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz]}}, format: ocsf`,
		"documents without some fields": `file: {path: "-"}, format: ecs, redact: [detection.title]`,
	} {
		t.Run(name, func(t *testing.T) { parse(t, sink(keys)) })
	}
}

func TestEachPresetAcceptsItsFormats(t *testing.T) {
	for _, spec := range presets.All() {
		supported := map[format.Name]bool{format.CloudEvents: true}
		for _, name := range spec.Formats {
			supported[name] = true
		}
		for _, name := range format.Names() {
			signIn := ""
			if spec.OAuthScope != "" {
				signIn = `, auth: {oauth: {token_url: "https://id.example/token", client_id: i, client_secret: s}}`
			}
			keys := `webhook: {preset: ` + spec.Name + `, url: "` + spec.Sample.URL + `", key: "` + spec.Sample.Key + `", rule_id: "` + spec.Sample.RuleID + `"` + signIn + `}, format: ` + string(name)
			_, err := Parse("f.yaml", []byte(sink(keys)), nil)
			assert.True(t, (err == nil) == supported[name] && (err == nil || strings.Contains(err.Error(), "is not supported by preset "+spec.Name)), spec.Name, name, err)
		}
	}
}
