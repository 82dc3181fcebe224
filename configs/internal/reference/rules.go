package main

import (
	"slices"

	"ndrbridge/sinks/webhook"
)

// Rules between keys that package configs validates but does not express in tags. Tests
// compare each of them with the validation.

var (
	login      = together(set("username"), secret("password"))
	natsLogins = atMostOne(set("creds_file"), set("nkey_file"), secret("token"), some(set("username"), secret("password")))
	oauthSet   = with("oauth", anySet("token_url", "client_id", "client_secret", "client_secret_file"))
	off        = func(stream string) object { return with(stream, is("enabled", false)) }
	basic      = is("verify", "basic")

	hasTemplate = anySet("template", "template_file")
	signs       = with("sign", anySet("secrets", "secret_files"))
	authSet     = with("auth", some(anySet("bearer", "bearer_file", "username", "password", "password_file"), there("oauth")))
	presetSet   = set("preset")
	generic     = with("ticket", is("system", "generic"))
	otherFormat = is("format", otherFormats()...)

	zero = object{"enum": []any{nil, 0, "0", "0s"}}
)

// rules returns the rules between the keys of each block, by its type.
func rules() map[string][]object {
	return map[string][]object{
		"Config": {
			when(
				with("sinks", object{"contains": with("webhook", with("ticket", not(is("link", false))))}),
				with("tickets", is("enabled", true)),
			),
			either(there("cluster"), filePaths(object{"pattern": `^-$|\{shard\}`}), filePaths(not(object{"type": "string", "pattern": `\{shard\}`}))),
		},
		"Cluster":     {with("nats", set("url"))},
		"ClusterNATS": {login, natsLogins},
		"Admin": {when(
			with("listen", object{"type": "string", "not": object{"pattern": `^(localhost|127[.].*|\[[0:]*1\]|\[::ffff:127[.].*\]):`}}),
			secret("token"),
		)},
		"Appliance": {
			{"oneOf": []object{secret("api_key"), oauthSet}},
			not(is("name", "bridge")),
			excludes(all(off("detections"), off("audit")), not(set("records"))),
		},
		"OAuth": {when(
			anySet("token_url", "client_id", "client_secret", "client_secret_file"),
			all(set("token_url"), set("client_id"), secret("client_secret")),
		)},
		"TLS":             {together(set("cert_file"), set("key_file"))},
		"Detections":      {where("enrich", object{"uniqueItems": true})},
		"DetectionFilter": {excludes(set("category"), set("categories"))},
		"Sink": {
			{"oneOf": []object{there("kafka"), there("nats"), there("webhook"), there("syslog"), there("file")}},
			when(some(there("syslog"), there("file")), not(is("mode", "binary", "batch"))),
			when(some(there("kafka"), there("nats")), not(is("mode", "batch"))),
			when(with("webhook", some(presetSet, hasTemplate, there("ticket"))), not(is("mode", "binary", "batch"))),
			when(with("webhook", signs), not(is("mode", "binary"))),
			when(otherFormat, not(is("mode", "binary"))),
			when(otherFormat, not(with("webhook", some(hasTemplate, there("ticket"))))),
			all(presetFormats()...),
			when(with("webhook", set("batch_encoding")), all(is("mode", "batch"), not(is("format", textFormats()...)))),
			when(
				all(with("lag", is("policy", "skip")), not(with("webhook", presetWith(isChat)))),
				with("lag", some(with("max_age", not(zero)), with("max_bytes", not(zero)))),
			),
		},
		"SASL": {either(set("mechanism"), all(set("username"), secret("password")), none(set("username"), secret("password")))},
		"NATS": {login, natsLogins, when(is("create_stream", true), set("stream"))},
		"WebhookAuth": {
			login,
			atMostOne(secret("bearer"), some(set("username"), secret("password")), there("oauth")),
		},
		"WebhookOAuth": {secret("client_secret")},
		"Webhook":      webhookRules(),
		"Syslog":       {when(there("tls"), not(is("network", "tcp", "udp")))},
		"TicketOpener": {
			when(is("system", "jira"), all(set("project"), none(set("fields"), set("id"), set("page"), there("lookup")))),
			when(is("system", "servicenow"), none(set("project"), set("labels"), set("id"), set("page"), there("lookup"))),
			when(is("system", "generic"), all(set("id"), none(set("project"), set("type"), set("labels"), set("priorities"), set("fields")))),
			where("priorities", object{"propertyNames": object{"enum": []string{"critical", "high", "medium", "low", "unknown"}}}),
		},
		"NATSIntake": {either(
			set("url"),
			all(set("stream"), login, natsLogins),
			none(set("stream"), set("creds_file"), set("nkey_file"), secret("token"), set("username"), secret("password"), there("tls")),
		)},
		"KafkaIntake":        {when(not(set("brokers")), none(there("tls"), with("sasl", anySet("mechanism", "username", "password", "password_file"))))},
		"WebhookIntake":      webhookIntakeRules(),
		"NamedWebhookIntake": append(webhookIntakeRules(), not(is("name", "jira", "servicenow"))),
	}
}

// filePaths requires the paths of all file sinks to match schema.
func filePaths(schema object) object {
	return where("sinks", object{"items": where("file", where("path", schema))})
}

func webhookRules() []object {
	rules := []object{
		some(set("url"), presetWith(hasURL)),
		when(presetSet, all(
			not(is("method", "PUT", "PATCH")),
			none(hasTemplate, signs, there("ticket")),
		)),
		when(secret("key"), presetWith(hasKey)),
		when(presetWith(requiresKey), secret("key")),
		when(presetWith(requiresOAuth), with("auth", there("oauth"))),
		when(is("preset", "sentinel"), set("rule_id")),
		when(all(presetWith(keyAuthorizes), secret("key")), not(authSet)),
		onlyWith(secret("key"), "channel", "updates"),
		when(all(is("preset", "slack"), secret("key")), set("channel")),
		excludes(set("template"), set("template_file")),
		excludes(signs, is("gzip", true)),
		when(there("ticket"), not(signs)),
		when(all(there("ticket"), not(generic)), none(is("method", "PUT", "PATCH"), hasTemplate)),
		when(generic, hasTemplate),
	}
	for _, key := range presetKeys() {
		supports := func(p webhook.PresetSpec) bool { return slices.Contains(p.Keys, key) }
		rules = append(rules, onlyWith(presetWith(supports), key))
	}
	return rules
}

func webhookIntakeRules() []object {
	return []object{
		when(anySet("verify", "header", "username"), secret("secret")),
		together(set("username"), basic),
		excludes(set("header"), basic),
	}
}
