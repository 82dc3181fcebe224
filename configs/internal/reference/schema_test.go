package main

import (
	"testing"

	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/test/assert"
)

const valid = `
appliances: [{name: hq, url: "https://sensor.example", api_key: k}]
sinks: [{name: log, file: {path: "-"}}]
`

// The schema rejects what Load rejects because of the tags of a field; see keys_test.go for permitted
// values and bounds.
func TestSchemaRejectsWhatLoadRejects(t *testing.T) {
	appliance := func(keys string) string {
		return `{appliances: [{name: hq, url: "https://sensor.example", api_key: k, ` + keys + `}], sinks: [{name: log, file: {path: "-"}}]}`
	}
	bare := func(keys string) string {
		return `{appliances: [{` + keys + `}], sinks: [{name: log, file: {path: "-"}}]}`
	}
	sink := func(keys string) string {
		return `{appliances: [{name: hq, url: "https://sensor.example", api_key: k}], sinks: [{name: s, ` + keys + `}], tickets: {enabled: true}}`
	}
	hook := func(keys string) string { return sink(`webhook: {url: "https://h.example", ` + keys + `}`) }
	ticket := func(keys string) string { return hook(`ticket: {` + keys + `}`) }
	tests := []struct{ name, text string }{
		{"nothing", `{}`},
		{"no appliance", `{appliances: [], sinks: [{name: log, file: {path: "-"}}]}`},
		{"no sink", `{appliances: [{name: hq, url: "https://sensor.example", api_key: k}]}`},
		{"an unknown key", "logs: {}" + valid},
		{"an unknown key deep down", appliance(`detections: {intervall: 10s}`)},
		{"a list in place of keys", "log: []" + valid},
		{"text in place of keys", "log: info" + valid},
		{"text in place of a list", sink(`kafka: {brokers: "h:9092"}`)},
		{"keys in place of text", "state: {}" + valid},
		{"a number in quotes", appliance(`unreachable_after: "3"`)},
		{"a number in place of true", appliance(`detections: {enabled: 1}`)},
		{"true in quotes", appliance(`detections: {enabled: "true"}`)},
		{"a fraction in place of a whole number", appliance(`unreachable_after: 1.5`)},
		{"a state of nothing", `state: ""` + valid},
		{"a size of half a byte", "journal: {max_bytes: 0.5}" + valid},
		{"an address without a port", "admin: {listen: localhost}" + valid},

		{"an appliance without a name", bare(`url: "https://sensor.example", api_key: k`)},
		{"an appliance with an empty name", bare(`name: "", url: "https://sensor.example", api_key: k`)},
		{"an appliance with a name of capitals", bare(`name: HQ, url: "https://sensor.example", api_key: k`)},
		{"an appliance without an address", bare(`name: hq, api_key: k`)},
		{"an appliance's address without a scheme", bare(`name: hq, url: sensor.example, api_key: k`)},
		{"a proxy by a scheme that is none", appliance(`proxy: "ftp://p.example"`)},
		{"a category that is none", appliance(`detections: {filter: {categories: [security]}}`)},
		{"a query without a name", appliance(`records: [{types: ["~dns"]}]`)},

		{"a kind without keys", sink(`kafka:`)},
		{"syslog without an address", sink(`syslog: {}`)},
		{"syslog at no port", sink(`syslog: {address: h}`)},
		{"syslog of an application with a blank", sink(`syslog: {address: "h:6514", app_name: a b}`)},
		{"syslog of a host with a blank", sink(`syslog: {address: "h:6514", hostname: a b}`)},
		{"a file without a path", sink(`file: {}`)},
		{"a path of a field with a gap", sink(`file: {path: "-"}, redact: [detection..title]`)},
		{"Kafka without brokers", sink(`kafka: {}`)},
		{"a broker without a port", sink(`kafka: {brokers: [h]}`)},
		{"a topic with a blank", sink(`kafka: {brokers: ["h:9092"], topic: a b}`)},
		{"a topic with an unknown part", sink(`kafka: {brokers: ["h:9092"], topic: "ndr.{name}"}`)},
		{"NATS without an address", sink(`nats: {stream: NDR}`)},
		{"NATS by HTTP", sink(`nats: {url: "https://h.example"}`)},
		{"a subject with a wildcard", sink(`nats: {url: "nats://h:4222", subject: "ndr.>"}`)},

		{"a webhook to a file", sink(`webhook: {url: "file:///a"}`)},
		{"a header with a blank", hook(`headers: {"a b": c}`)},
		{"OAuth without an address", hook(`auth: {oauth: {client_id: i, client_secret: s}}`)},
		{"OAuth at an address that is none", hook(`auth: {oauth: {token_url: "t.example", client_id: i, client_secret: s}}`)},

		{"a ticket of no system", ticket(`project: SEC`)},
		{"a cluster without a name", `cluster: {nats: {url: "nats://h:4222"}}` + valid},
		{"a cluster with a name of capitals", `cluster: {name: PROD, nats: {url: "nats://h:4222"}}` + valid},
		{"a cluster with servers of another scheme", `cluster: {name: prod, nats: {url: "http://h"}}` + valid},
		{"a member with a dot", `cluster: {name: prod, member: a.b, nats: {url: "nats://h:4222"}}` + valid},
		{"an address without a scheme", `admin: {advertise: "a:9600"}` + "\n" + valid},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := writeFiles(t).replace(tree(t, test.text))
			if _, err := load(t, config); err == nil {
				t.Error("Load takes it")
			}
			assert.Error(t, wholeSchema().Validate(config), "the schema takes it")
		})
	}
}

// The other way round: rules that are too strict would refuse these.
func TestSchemaAcceptsWhatLoadAccepts(t *testing.T) {
	sink := func(keys string) string {
		return `{appliances: [{name: hq, url: "https://sensor.example", api_key: k}], sinks: [{name: s, ` + keys + `}]}`
	}
	tests := []struct{ name, text string }{
		{"the least", valid},
		{"keys without values", "{log: , state: , journal: {retain: }, tickets: {nats: {url: }}, " + sink(`file: {path: "-"}, mode: , lag: `)[1:]},
		{"text that YAML takes for numbers", sink(`kafka: {brokers: ["h:9092"], client_id: 5, sasl: {mechanism: plain, username: 1, password: 12345}}`)},
		{"an empty secret beside its file", `{appliances: [{name: hq, url: "https://sensor.example", api_key: "", api_key_file: /a}], sinks: [{name: s, file: {path: "-"}}]}`},
		{"OAuth of nothing beside a key", `{appliances: [{name: hq, url: "https://sensor.example/", api_key: k, oauth: {token_url: "", client_id: ""}}], sinks: [{name: s, file: {path: "-"}}]}`},
		{"a time of day as a start", sink(`file: {path: "-"}, start: 2026-01-31T08:00:00.5+01:00`)},
		{"several servers", sink(`nats: {url: "nats://a:4222, tls://b:4222"}`)},
		{"schemes of capitals", `{appliances: [{name: hq, url: "HTTPS://sensor.example", proxy: "Socks5://p.example", api_key: k}], sinks: [{name: s, nats: {url: "NATS://a:4222"}}]}`},
		{"a pager, which needs no address", sink(`webhook: {preset: pagerduty, key: k}`)},
		{"another format of a preset", sink(`webhook: {preset: datadog, url: "https://h.example", key: k}, format: cef`)},
		{"lines of documents", sink(`webhook: {url: "https://h.example", batch_encoding: ndjson}, mode: batch, format: ocsf`)},
		{"CloudEvents with a template", sink(`webhook: {url: "https://h.example", template: '{}'}, format: cloudevents`)},
		{"a chat that skips by itself", sink(`webhook: {url: "https://h.example", preset: slack}, lag: {policy: skip}`)},
		{"a proxy of nothing", sink(`webhook: {url: "https://h.example", proxy: ""}`)},
		{"loopback by its other addresses", "admin: {listen: '[::1]:9600'}" + valid},
		{"a cluster with a file", `{cluster: {name: prod, nats: {url: "nats://h:4222"}}, ` + sink(`file: {path: "/a/events.jsonl"}`)[1:]},
		{"a cluster and standard output", `cluster: {name: prod, member: A_b-1, nats: {url: "nats://h:4222,tls://h:4223"}}` + valid},
		{"no filter", `{appliances: [{name: hq, url: "https://sensor.example", api_key: k, records: [{name: a, filter: {}}, {name: b, filter: }]}], sinks: [{name: s, file: {path: "-"}}]}`},
		{"a filter of everything", `{appliances: [{name: hq, url: "https://sensor.example", api_key: k, records: [{name: a, filter: {operator: not, rules: [{field: a, operator: in, operand: {type: number, value: [1, 2]}}, {field: b, operator: exists}]}}]}], sinks: [{name: s, file: {path: "-"}}]}`},
	}
	for _, p := range presets.All() {
		signIn := ""
		if p.OAuthScope != "" {
			signIn = `, auth: {oauth: {token_url: "https://t.example", client_id: i, client_secret: s}}`
		}
		keys := sink(`webhook: {preset: ` + p.Name + `, url: "` + p.Sample.URL + `", key: "` + p.Sample.Key + `", rule_id: "` + p.Sample.RuleID + `"` + signIn + `}`)
		tests = append(tests, struct{ name, text string }{"the sample of " + p.Name, keys})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { check(t, tree(t, test.text)) })
	}
}
