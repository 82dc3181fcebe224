package main

import "strings"

// The rules between keys, and the patterns of values, which validation has and no tag
// tells. A test holds each against it.

// set says that the key is there with a value.
func set(key string) object { return with(key, definition("set")) }

// setDefinition is what any value fits but an empty one.
func setDefinition() object { return not(object{"enum": []any{nil, "", []any{}, object{}}}) }

// with says that the key is there, and that its value fits.
func with(key string, schema object) object {
	return object{"type": "object", "required": []string{key}, "properties": object{key: schema}}
}

// secret says that one of the keys of a secret has a value.
func secret(key string) object { return some(set(key), set(key+"_file")) }

func is(key string, values ...any) object { return with(key, object{"enum": values}) }

func there(key string) object { return object{"type": "object", "required": []string{key}} }

func all(schemas ...object) object      { return object{"allOf": schemas} }
func some(schemas ...object) object     { return object{"anyOf": schemas} }
func not(schema object) object          { return object{"not": schema} }
func none(schemas ...object) object     { return not(some(schemas...)) }
func when(this, then object) object     { return object{"if": this, "then": then} }
func together(a, b object) object       { return object{"if": a, "then": b, "else": not(b)} }
func either(this, a, b object) object   { return object{"if": this, "then": a, "else": b} }
func excludes(this, that object) object { return not(all(this, that)) }

// atMostOne says that no two of the schemas fit.
func atMostOne(schemas ...object) object {
	var pairs []object
	for i := range schemas {
		for _, other := range schemas[i+1:] {
			pairs = append(pairs, all(schemas[i], other))
		}
	}
	return none(pairs...)
}

// anySet says that one of the keys has a value.
func anySet(keys ...string) object {
	var schemas []object
	for _, key := range keys {
		schemas = append(schemas, set(key))
	}
	return some(schemas...)
}

// onlyWith says that the keys have values where condition holds alone.
func onlyWith(condition object, keys ...string) object {
	return when(anySet(keys...), condition)
}

var (
	login    = together(set("username"), secret("password"))
	natsWays = atMostOne(set("creds_file"), set("nkey_file"), secret("token"), some(set("username"), secret("password")))
	oauthSet = with("oauth", anySet("token_url", "client_id", "client_secret", "client_secret_file"))
	off      = func(stream string) object { return with(stream, is("enabled", false)) }
	basic    = is("verify", "basic")

	hasTemplate = anySet("template", "template_file")
	signs       = with("sign", anySet("secrets", "secret_files"))
	authSet     = with("auth", anySet("bearer", "bearer_file", "username", "password", "password_file"))
	presetSet   = set("preset")
	generic     = with("ticket", is("system", "generic"))

	zero = object{"enum": []any{nil, 0, "0", "0s"}}
)

// rules are those between the keys of a block, by its type.
func rules() map[string][]object {
	return map[string][]object{
		"Config": {when(
			with("sinks", object{"contains": with("webhook", with("ticket", not(is("link", false))))}),
			with("tickets", is("enabled", true)),
		)},
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
			{"oneOf": []object{there("kafka"), there("nats"), there("webhook"), there("file")}},
			when(there("file"), not(is("mode", "binary", "batch"))),
			when(some(there("kafka"), there("nats")), not(is("mode", "batch"))),
			when(with("webhook", some(presetSet, hasTemplate, there("ticket"))), not(is("mode", "binary", "batch"))),
			when(with("webhook", signs), not(is("mode", "binary"))),
			when(
				all(with("lag", is("policy", "skip")), not(with("webhook", is("preset", "slack", "teams", "discord")))),
				with("lag", some(with("max_age", not(zero)), with("max_bytes", not(zero)))),
			),
		},
		"SASL":        {either(set("mechanism"), all(set("username"), secret("password")), none(set("username"), secret("password")))},
		"NATS":        {login, natsWays, when(is("create_stream", true), set("stream"))},
		"WebhookAuth": {login, excludes(secret("bearer"), some(set("username"), secret("password")))},
		"Webhook":     webhookRules(),
		"WebhookTicket": {
			when(is("system", "jira"), all(set("project"), none(set("fields"), set("id"), set("page"), there("lookup")))),
			when(is("system", "servicenow"), none(set("project"), set("labels"), set("id"), set("page"), there("lookup"))),
			when(is("system", "generic"), all(set("id"), none(set("project"), set("type"), set("labels"), set("priorities"), set("fields")))),
			where("priorities", object{"propertyNames": object{"enum": []string{"critical", "high", "medium", "low", "info"}}}),
		},
		"TicketNATS": {either(
			set("url"),
			all(set("stream"), login, natsWays),
			none(set("stream"), set("creds_file"), set("nkey_file"), secret("token"), set("username"), secret("password"), there("tls")),
		)},
		"TicketKafka":        {when(not(set("brokers")), none(there("tls"), with("sasl", anySet("mechanism", "username", "password", "password_file"))))},
		"TicketWebhook":      ticketWebhookRules(),
		"NamedTicketWebhook": append(ticketWebhookRules(), not(is("name", "jira", "servicenow"))),
	}
}

// where says that the value of the key fits, where it is there.
func where(key string, schema object) object { return object{"properties": object{key: schema}} }

func webhookRules() []object {
	preset := func(names ...any) object { return is("preset", names...) }
	return []object{
		some(set("url"), preset("pagerduty")),
		when(presetSet, all(
			not(is("method", "PUT", "PATCH")),
			none(hasTemplate, signs, there("handshake"), there("ticket")),
		)),
		when(secret("key"), preset("slack", "pagerduty", "splunk_hec", "elasticsearch", "datadog")),
		when(preset("pagerduty", "splunk_hec", "datadog"), secret("key")),
		when(all(preset("slack", "splunk_hec", "elasticsearch"), secret("key")), not(authSet)),
		onlyWith(preset("slack"), "channel", "updates"),
		onlyWith(secret("key"), "channel", "updates"),
		when(all(preset("slack"), secret("key")), set("channel")),
		onlyWith(preset("splunk_hec"), "index", "source_type"),
		onlyWith(preset("datadog"), "service", "tags"),
		excludes(set("template"), set("template_file")),
		excludes(signs, is("gzip", true)),
		when(there("ticket"), none(signs, there("handshake"))),
		when(all(there("ticket"), not(generic)), none(is("method", "PUT", "PATCH"), hasTemplate)),
		when(generic, hasTemplate),
	}
}

func ticketWebhookRules() []object {
	return []object{
		when(anySet("verify", "header", "username"), secret("secret")),
		together(set("username"), basic),
		excludes(set("header"), basic),
	}
}

const (
	namePattern = "^[a-z0-9-]{1,63}$"
	wordPattern = "^[A-Za-z][A-Za-z0-9_-]*$"
	hostAndPort = "^.+:[0-9]+$"
	category    = `^(sec|perf|custom)([.][a-z_]+)?$`
	placeholder = `\{(stream|appliance|action)\}`
	streamName  = `[^ \t\r\n\f.*>/\\]+`
	headerName  = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
)

// patterns are those of texts, and of the items of lists, by type and field.
func patterns() map[string]string {
	http, natsURL := schemes("http", "https"), schemes("nats", "tls", "ws", "wss")
	proxy := orNothing("^" + schemes("http", "https", "socks5") + "://.")
	return map[string]string{
		"Admin.Listen":               ":[0-9]+$",
		"Events.TypePrefix":          `^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$`,
		"Appliance.Name":             namePattern,
		"Appliance.URL":              "^" + http + "://[^/?#@]+/?#?$",
		"Appliance.Product":          wordPattern,
		"Appliance.SchemeWord":       orNothing(wordPattern),
		"Appliance.Proxy":            proxy,
		"OAuth.TokenURL":             orNothing("^" + http + "://."),
		"RecordQuery.Name":           namePattern,
		"RecordQuery.Types":          ".",
		"DetectionFilter.Categories": category,
		"DetectionFilter.Category":   orNothing(category),
		"DetectionFilter.Assignee":   ".",
		"DetectionFilter.TicketID":   ".",
		"DetectionFilter.Types":      ".",
		"Sink.Name":                  namePattern,
		"Sink.Redact":                `^[^."\\]+([.][^."\\]+)*$`,
		"Kafka.Brokers":              hostAndPort,
		"Kafka.Topic":                "^([A-Za-z0-9._-]|" + placeholder + ")+$",
		"NATS.URL":                   `^\s*` + natsURL + "://.",
		"NATS.Stream":                "^(" + streamName + ")?$",
		"NATS.Subject":               `^([^ \t\r\n\f.*>{}]|` + placeholder + `)+([.]([^ \t\r\n\f.*>{}]|` + placeholder + `)+)*$`,
		"Webhook.URL":                orNothing("^" + http + "://."),
		"Webhook.Proxy":              proxy,
		"WebhookHandshake.Origin":    `^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`,
		"TicketNATS.URL":             orNothing(`^\s*` + natsURL + "://."),
		"TicketNATS.Stream":          "^(" + streamName + ")?$",
		"TicketKafka.Brokers":        hostAndPort,
		"NamedTicketWebhook.Name":    namePattern,
		"NamedTicketWebhook.Header":  orNothing(headerName),
		"TicketWebhook.Header":       orNothing(headerName),
	}
}

func orNothing(pattern string) string { return "^$|" + pattern }

// schemes matches one of the names, whatever the case of its letters.
func schemes(names ...string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, r := range name {
			if lower, upper := string(r), strings.ToUpper(string(r)); lower != upper {
				b.WriteString("[" + upper + lower + "]")
			} else {
				b.WriteString(lower)
			}
		}
	}
	return "(" + b.String() + ")"
}

// filterDefinition is the schema of the interface's filter of records.
func filterDefinition() object {
	value := object{"type": []string{"string", "number", "boolean"}}
	values := object{"type": "array", "minItems": 1, "items": value}
	name := object{"type": "string", "minLength": 1}
	operand := func(schema object) object {
		return object{"anyOf": []object{schema, {
			"type": "object", "additionalProperties": false, "required": []string{"type", "value"},
			"properties": object{"type": name, "value": schema},
		}}}
	}
	kind := func(properties object, operators ...string) object {
		properties["operator"] = object{"enum": operators}
		var required []string
		for _, key := range []string{"field", "operator", "operand", "rules"} {
			if properties[key] != nil {
				required = append(required, key)
			}
		}
		return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	}
	return object{"oneOf": []object{
		kind(object{"field": name, "operand": operand(value)}, "=", "!=", ">", "<", ">=", "<=", "~", "!~", "startswith"),
		kind(object{"field": name, "operand": operand(values)}, "in", "not_in"),
		kind(object{"field": name}, "exists", "not_exists"),
		kind(object{"rules": object{"type": "array", "minItems": 1, "items": definition("filter")}}, "and", "or", "not"),
	}}
}
