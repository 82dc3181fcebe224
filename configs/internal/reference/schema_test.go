package main

import (
	"slices"
	"testing"

	"ndrbridge/sinks/webhook/presets"
)

const valid = `
appliances: [{name: hq, url: "https://sensor.example", api_key: k}]
sinks: [{name: log, file: {path: "-"}}]
`

// The schema rejects what Load rejects because of the tags of a field. Only Load rejects what
// breaks a rule between keys, or a rule of one kind of value.
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
	preset := func(keys string) string { return sink(`webhook: {url: "https://h.example/ndr", preset: ` + keys + `}`) }
	ticket := func(keys string) string { return hook(`ticket: {` + keys + `}`) }
	tickets := func(keys string) string {
		return `{appliances: [{name: hq, url: "https://sensor.example", api_key: k}], sinks: [{name: log, file: {path: "-"}}], tickets: {` + keys + `}}`
	}
	ofTags := []struct{ name, text string }{
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
		{"a level that is none", "log: {level: loud}" + valid},
		{"a duration without a unit", "shutdown_timeout: 20" + valid},
		{"a duration in words", "shutdown_timeout: 20 seconds" + valid},
		{"no time to stop", "shutdown_timeout: 0" + valid},
		{"no time to stop, with a unit", "shutdown_timeout: 0s" + valid},
		{"a time below nothing", "journal: {retain: -1h}" + valid},
		{"a size of half a byte", "journal: {max_bytes: 0.5}" + valid},
		{"a size in words", "journal: {max_bytes: 2 GB}" + valid},
		{"a journal of a few bytes", "journal: {max_bytes: 1000}" + valid},
		{"an address without a port", "admin: {listen: localhost}" + valid},

		{"an appliance without a name", bare(`url: "https://sensor.example", api_key: k`)},
		{"an appliance with an empty name", bare(`name: "", url: "https://sensor.example", api_key: k`)},
		{"an appliance with a name of capitals", bare(`name: HQ, url: "https://sensor.example", api_key: k`)},
		{"an appliance without an address", bare(`name: hq, api_key: k`)},
		{"an appliance's address without a scheme", bare(`name: hq, url: sensor.example, api_key: k`)},
		{"a rate of nothing", appliance(`rate_limit: 0`)},
		{"a proxy by a scheme that is none", appliance(`proxy: "ftp://p.example"`)},
		{"pages of one", appliance(`detections: {page_size: 1}`)},
		{"pages above the interface's", appliance(`audit: {page_size: 10001}`)},
		{"a start in the future", appliance(`detections: {start: 7d}`)},
		{"a start in words", appliance(`detections: {start: yesterday}`)},
		{"what cannot be added", appliance(`detections: {enrich: [names]}`)},
		{"a category that is none", appliance(`detections: {filter: {categories: [security]}}`)},
		{"a query without a name", appliance(`records: [{types: ["~dns"]}]`)},
		{"a filter without an operator", appliance(`records: [{name: a, filter: {field: a, operand: 1}}]`)},
		{"a filter with an operator that is none", appliance(`records: [{name: a, filter: {field: a, operator: like, operand: 1}}]`)},
		{"a filter of no rules", appliance(`records: [{name: a, filter: {operator: and, rules: []}}]`)},
		{"a value in place of a list in a filter", appliance(`records: [{name: a, filter: {field: a, operator: in, operand: 1}}]`)},
		{"an operand where none belongs", appliance(`records: [{name: a, filter: {field: a, operator: exists, operand: 1}}]`)},

		{"a kind without keys", sink(`kafka:`)},
		{"syslog without an address", sink(`syslog: {}`)},
		{"syslog at no port", sink(`syslog: {address: h}`)},
		{"syslog over an unknown network", sink(`syslog: {address: "h:6514", network: relp}`)},
		{"syslog of no facility", sink(`syslog: {address: "h:6514", facility: local8}`)},
		{"syslog of an application with a blank", sink(`syslog: {address: "h:6514", app_name: a b}`)},
		{"syslog of a host with a blank", sink(`syslog: {address: "h:6514", hostname: a b}`)},
		{"syslog messages of no size", sink(`syslog: {address: "h:6514", max_bytes: 0}`)},
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
		{"an unsupported method", hook(`method: GET`)},
		{"no request in flight", hook(`concurrency: 0`)},
		{"a header with a blank", hook(`headers: {"a b": c}`)},
		{"OAuth without an address", hook(`auth: {oauth: {client_id: i, client_secret: s}}`)},
		{"OAuth at an address that is none", hook(`auth: {oauth: {token_url: "t.example", client_id: i, client_secret: s}}`)},
		{"OAuth in a style that is none", hook(`auth: {oauth: {token_url: "https://t.example", client_id: i, client_secret: s, style: body}}`)},
		{"a preset that is none", preset(`irc`)},
		{"a format that is none", sink(`file: {path: "-"}, format: gelf`)},

		{"a ticket of no system", ticket(`project: SEC`)},
		{"a ticket of another system", ticket(`system: otrs`)},
		{"a cluster without a name", `cluster: {nats: {url: "nats://h:4222"}}` + valid},
		{"a cluster with a name of capitals", `cluster: {name: PROD, nats: {url: "nats://h:4222"}}` + valid},
		{"a cluster with servers of another scheme", `cluster: {name: prod, nats: {url: "http://h"}}` + valid},
		{"a member with a dot", `cluster: {name: prod, member: a.b, nats: {url: "nats://h:4222"}}` + valid},
		{"a member of digits", `cluster: {name: prod, member: "03", nats: {url: "nats://h:4222"}}` + valid},
		{"a cluster with too many shards", `cluster: {name: prod, shards: 101, nats: {url: "nats://h:4222"}}` + valid},
	}
	ofCode := []struct{ name, text string }{
		{"the world without a token", "admin: {listen: '0.0.0.0:9600'}" + valid},
		{"a token twice", "admin: {token: a, token_file: /b}" + valid},
		{"an appliance with the bridge's name", bare(`name: bridge, url: "https://sensor.example", api_key: k`)},
		{"an appliance's address with a path", bare(`name: hq, url: "https://sensor.example/api/v1", api_key: k`)},
		{"no way to sign in", bare(`name: hq, url: "https://sensor.example"`)},
		{"two ways to sign in", appliance(`oauth: {token_url: "https://t.example", client_id: i, client_secret: s}`)},
		{"half of OAuth", bare(`name: hq, url: "https://sensor.example", oauth: {client_id: i}`)},
		{"half of a certificate", appliance(`tls: {cert_file: c}`)},
		{"no stream", appliance(`detections: {enabled: false}, audit: {enabled: false}`)},
		{"what is added twice", appliance(`detections: {enrich: [link, link]}`)},
		{"both forms of categories", appliance(`detections: {filter: {category: sec, categories: [sec]}}`)},
		{"a sink without a destination", sink(`start: now`)},
		{"two kinds in a sink", sink(`kafka: {brokers: ["h:9092"]}, file: {path: "-"}`)},
		{"batches to Kafka", sink(`kafka: {brokers: ["h:9092"]}, mode: batch`)},
		{"binary events in a file", sink(`file: {path: "-"}, mode: binary`)},
		{"binary events over syslog", sink(`syslog: {address: "h:6514"}, mode: binary`)},
		{"syslog over TCP with keys of TLS", sink(`syslog: {address: "h:6514", network: tcp, tls: {}}`)},
		{"a mode beside a preset", sink(`webhook: {url: "https://h.example", preset: slack}, mode: batch`)},
		{"skipping without a bound", sink(`file: {path: "-"}, lag: {policy: skip}`)},
		{"an AWS identity without a region", sink(`kafka: {brokers: ["h:9092"], sasl: {mechanism: aws_msk_iam}}`)},
		{"an AWS identity with a user", sink(`kafka: {brokers: ["h:9092"], sasl: {mechanism: aws_msk_iam, region: eu-west-1, username: u}}`)},
		{"a region with another mechanism", sink(`kafka: {brokers: ["h:9092"], sasl: {mechanism: plain, username: u, password: p, region: eu-west-1}}`)},
		{"a region at no broker", tickets(`kafka: {sasl: {region: eu-west-1}}`)},
		{"a token without its endpoint", sink(`kafka: {brokers: ["h:9092"], sasl: {mechanism: oauthbearer}}`)},
		{"a token without a secret", sink(`kafka: {brokers: ["h:9092"], sasl: {mechanism: oauthbearer, oauth: {token_url: "https://t", client_id: c}}}`)},
		{"a token with a user", sink(`kafka: {brokers: ["h:9092"], sasl: {mechanism: oauthbearer, username: u, oauth: {token_url: "https://t", client_id: c, client_secret: s}}}`)},
		{"a token with another mechanism", sink(`kafka: {brokers: ["h:9092"], sasl: {mechanism: plain, username: u, password: p, oauth: {token_url: "https://t", client_id: c, client_secret: s}}}`)},
		{"a mechanism without a user", sink(`kafka: {brokers: ["h:9092"], sasl: {mechanism: plain}}`)},
		{"a user without a mechanism", sink(`kafka: {brokers: ["h:9092"], sasl: {username: u, password: p}}`)},
		{"NATS with two ways of signing in", sink(`nats: {url: "nats://h:4222", token: t, creds_file: c}`)},
		{"NATS with half a login", sink(`nats: {url: "nats://h:4222", username: u}`)},
		{"a stream without a name to be made", sink(`nats: {url: "nats://h:4222", create_stream: true}`)},
		{"a webhook without an address", sink(`webhook: {}`)},
		{"a token and a user", hook(`auth: {bearer: b, username: u, password: p}`)},
		{"a user without a password", hook(`auth: {username: u}`)},
		{"a token and OAuth", hook(`auth: {bearer: b, oauth: {token_url: "https://t.example", client_id: i, client_secret: s}}`)},
		{"OAuth without a secret", hook(`auth: {oauth: {token_url: "https://t.example", client_id: i}}`)},
		{"a key without a preset", hook(`key: k`)},
		{"a key of a preset that has none", preset(`teams, key: k`)},
		{"a preset without its key", preset(`splunk_hec`)},
		{"a preset with another method", preset(`slack, method: PUT`)},
		{"a preset with a template", preset(`slack, template: '{}'`)},
		{"a preset that is signed", preset(`slack, sign: {secrets: [` + aSecret + `]}`)},
		{"a channel without a bot", preset(`slack, channel: C1`)},
		{"a bot without a channel", preset(`slack, key: k`)},
		{"an index of another preset", preset(`elasticsearch, index: ndr`)},
		{"a channel of another preset", preset(`pagerduty, key: k, channel: C1`)},
		{"tags of another preset", preset(`elasticsearch, tags: ["env:prod"]`)},
		{"a key and another sign-in", preset(`elasticsearch, key: k, auth: {bearer: b}`)},
		{"a key and OAuth", preset(`elasticsearch, key: k, auth: {oauth: {token_url: "https://t.example", client_id: i, client_secret: s}}`)},
		{"sentinel without OAuth", preset(`sentinel, rule_id: dcr-00000000000000000000000000000000`)},
		{"sentinel without a rule", preset(`sentinel, auth: {oauth: {token_url: "https://t.example", client_id: i, client_secret: s}}`)},
		{"sentinel with a rule's name", preset(`sentinel, rule_id: ndrbridge, auth: {oauth: {token_url: "https://t.example", client_id: i, client_secret: s}}`)},
		{"a rule of another preset", preset(`elasticsearch, rule_id: dcr-00000000000000000000000000000000`)},
		{"two templates", hook(`template: '{}', template_file: /b`)},
		{"a template in batches", sink(`webhook: {url: "https://h.example", template: '{}'}, mode: batch`)},
		{"signed and compressed", hook(`gzip: true, sign: {secrets: [` + aSecret + `]}`)},
		{"signed and binary", sink(`webhook: {url: "https://h.example", sign: {secrets: [` + aSecret + `]}}, mode: binary`)},
		{"another format in binary mode", sink(`kafka: {brokers: ["h:9092"]}, mode: binary, format: ocsf`)},
		{"another format with a template", sink(`webhook: {url: "https://h.example", template: '{}'}, format: ecs`)},
		{"another format with a ticket", sink(`webhook: {url: "https://h.example", ticket: {system: jira, project: SEC}}, format: ecs`)},
		{"another format of a chat", sink(`webhook: {url: "https://h.example", preset: slack}, format: leef`)},
		{"an encoding of batches without batches", hook(`batch_encoding: json`)},
		{"an encoding of batches of text", sink(`webhook: {url: "https://h.example", batch_encoding: json}, mode: batch, format: cef`)},
		{"Jira without a project", ticket(`system: jira`)},
		{"Jira with a column", ticket(`system: jira, project: SEC, fields: {a: b}`)},
		{"ServiceNow with a project", ticket(`system: servicenow, project: SEC`)},
		{"ServiceNow with labels", ticket(`system: servicenow, labels: [ndr]`)},
		{"a ticket of a generic system without the path of its id", hook(`template: '{}', ticket: {system: generic}`)},
		{"a ticket of a system of one's own with a project", hook(`template: '{}', ticket: {system: generic, id: id, project: SEC}`)},
		{"a ticket without a template", ticket(`system: generic, id: number`)},
		{"a severity that is none", ticket(`system: jira, project: SEC, priorities: {severe: High}`)},
		{"a ticket and a preset", preset(`slack, ticket: {system: jira, project: SEC}`)},
		{"a ticket that is signed", hook(`sign: {secrets: [` + aSecret + `]}, ticket: {system: jira, project: SEC}`)},
		{"Jira with a template", hook(`template: '{}', ticket: {system: jira, project: SEC}`)},
		{"Jira with another method", hook(`method: PUT, ticket: {system: jira, project: SEC}`)},
		{"tickets in batches", sink(`webhook: {url: "https://h.example", ticket: {system: jira, project: SEC}}, mode: batch`)},
		{"a cluster without servers", "cluster: {name: prod}" + valid},
		{"a cluster with two ways of signing in", `cluster: {name: prod, nats: {url: "nats://h:4222", token: t, nkey_file: k}}` + valid},
		{"a cluster with one file", `{cluster: {name: prod, nats: {url: "nats://h:4222"}}, ` + sink(`file: {path: events.jsonl}`)[1:]},
		{"a file for each shard of no cluster", sink(`file: {path: "events-{shard}.jsonl"}`)},
		{"a link that is never written", `{appliances: [{name: hq, url: "https://sensor.example", api_key: k}], sinks: [{name: s, webhook: {url: "https://h.example", ticket: {system: jira, project: SEC}}}]}`},
		{"commands from a stream on no server", tickets(`nats: {stream: NDR}`)},
		{"commands from no stream", tickets(`nats: {url: "nats://h:4222"}`)},
		{"commands from NATS with two ways of signing in", tickets(`nats: {url: "nats://h:4222", stream: NDR, token: t, creds_file: c}`)},
		{"a token at no broker", tickets(`kafka: {sasl: {oauth: {token_url: "https://t", client_id: c, client_secret: s}}}`)},
		{"a user at no broker", tickets(`kafka: {sasl: {mechanism: plain, username: u, password: p}}`)},
		{"a verification without a secret", tickets(`webhooks: {jira: {verify: header}}`)},
		{"a user without basic", tickets(`webhooks: {jira: {secret: s, username: u}}`)},
		{"a header beside basic", tickets(`webhooks: {jira: {secret: s, verify: basic, username: u, header: H}}`)},
		{"a name that is taken", tickets(`webhooks: {generic: [{name: jira, secret: s}]}`)},
	}
	for i, test := range slices.Concat(ofTags, ofCode) {
		t.Run(test.name, func(t *testing.T) {
			config := writeFiles(t).replace(tree(t, test.text))
			if _, err := load(t, config); err == nil {
				t.Error("Load takes it")
			}
			if err := wholeSchema().Validate(config); (err == nil) != (i >= len(ofTags)) {
				t.Error("the schema:", err)
			}
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
		{"an AWS identity", sink(`kafka: {brokers: ["h:9092"], sasl: {mechanism: aws_msk_iam, region: eu-west-1}}`)},
		{"a token of brokers", sink(`kafka: {brokers: ["h:9092"], sasl: {mechanism: oauthbearer, oauth: {token_url: "https://t", client_id: c, client_secret: s}}}`)},
		{"text that YAML takes for numbers", sink(`kafka: {brokers: ["h:9092"], client_id: 5, sasl: {mechanism: plain, username: 1, password: 12345}}`)},
		{"an empty secret beside its file", `{appliances: [{name: hq, url: "https://sensor.example", api_key: "", api_key_file: /a}], sinks: [{name: s, file: {path: "-"}}]}`},
		{"OAuth of nothing beside a key", `{appliances: [{name: hq, url: "https://sensor.example/", api_key: k, oauth: {token_url: "", client_id: ""}}], sinks: [{name: s, file: {path: "-"}}]}`},
		{"a time of day as a start", sink(`file: {path: "-"}, start: 2026-01-31T08:00:00.5+01:00`)},
		{"several servers", sink(`nats: {url: "nats://a:4222, tls://b:4222"}`)},
		{"a pager, which needs no address", sink(`webhook: {preset: pagerduty, key: k}`)},
		{"another format of a preset", sink(`webhook: {preset: datadog, url: "https://h.example", key: k}, format: cef`)},
		{"lines of documents", sink(`webhook: {url: "https://h.example", batch_encoding: ndjson}, mode: batch, format: ocsf`)},
		{"CloudEvents with a template", sink(`webhook: {url: "https://h.example", template: '{}'}, format: cloudevents`)},
		{"a chat that skips by itself", sink(`webhook: {url: "https://h.example", preset: slack}, lag: {policy: skip}`)},
		{"a proxy of nothing", sink(`webhook: {url: "HTTPS://h.example", proxy: ""}`)},
		{"loopback by its other addresses", "admin: {listen: '[::1]:9600'}" + valid},
		{"a cluster with a file for each shard", `{cluster: {name: prod, nats: {url: "nats://h:4222"}}, ` + sink(`file: {path: "/a/{shard}.jsonl"}`)[1:]},
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
		t.Run(test.name, func(t *testing.T) {
			config := writeFiles(t).replace(tree(t, test.text))
			if _, err := load(t, config); err != nil {
				t.Error(err)
			}
			if err := wholeSchema().Validate(config); err != nil {
				t.Error(err)
			}
		})
	}
}
