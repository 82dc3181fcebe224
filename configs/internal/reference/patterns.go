package main

import "strings"

// Patterns of values that package configs validates but does not express in tags.

const (
	namePattern = "^[a-z0-9-]{1,63}$"
	wordPattern = "^[A-Za-z][A-Za-z0-9_-]*$"
	hostAndPort = "^.+:[0-9]+$"
	category    = `^(sec|perf|custom)([.][a-z_]+)?$`
	placeholder = `\{(stream|appliance|action)\}`
	streamName  = `[^ \t\r\n\f.*>/\\]+`
	headerName  = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
)

// patterns returns the patterns of texts and of list items by type and field.
func patterns() map[string]string {
	http, natsURL := schemes("http", "https"), schemes("nats", "tls")
	proxy := orNothing("^" + schemes("http", "https", "socks5") + "://.")
	return map[string]string{
		"Cluster.Name":               "^[a-z0-9-]{1,32}$",
		"Cluster.Member":             orNothing("^[0-9]{0,62}[A-Za-z_-][A-Za-z0-9_-]{0,62}$"),
		"ClusterNATS.URL":            `^\s*` + natsURL + "://.",
		"Admin.Listen":               ":[0-9]+$",
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
		"DetectionFilter.Types":      ".",
		"Sink.Name":                  namePattern,
		"Sink.Redact":                `^[^."\\]+([.][^."\\]+)*$`,
		"Kafka.Brokers":              hostAndPort,
		"Kafka.Topic":                "^([A-Za-z0-9._-]|" + placeholder + ")+$",
		"NATS.URL":                   `^\s*` + natsURL + "://.",
		"NATS.Stream":                "^(" + streamName + ")?$",
		"NATS.Subject":               `^([^ \t\r\n\f.*>{}]|` + placeholder + `)+([.]([^ \t\r\n\f.*>{}]|` + placeholder + `)+)*$`,
		"Syslog.Address":             hostAndPort,
		"Syslog.AppName":             "^[!-~]{1,48}$",
		"Syslog.Hostname":            "^[!-~]{0,255}$",
		"Webhook.URL":                orNothing("^" + http + "://."),
		"Webhook.RuleID":             "^(dcr-[0-9a-f]{32})?$",
		"Webhook.Stream":             "^((Custom|Microsoft)-[A-Za-z0-9_-]{1,100})?$",
		"Webhook.Proxy":              proxy,
		"WebhookOAuth.TokenURL":      "^" + http + "://.",
		"NATSIntake.URL":             orNothing(`^\s*` + natsURL + "://."),
		"NATSIntake.Stream":          "^(" + streamName + ")?$",
		"KafkaIntake.Brokers":        hostAndPort,
		"NamedWebhookIntake.Name":    namePattern,
		"NamedWebhookIntake.Header":  orNothing(headerName),
		"WebhookIntake.Header":       orNothing(headerName),
	}
}

func orNothing(pattern string) string { return "^$|" + pattern }

// schemes returns a pattern that matches one of the names in upper or lower case.
func schemes(names ...string) string {
	patterns := make([]string, len(names))
	for i, name := range names {
		patterns[i] = inAnyCase(name)
	}
	return "(" + strings.Join(patterns, "|") + ")"
}

// spellings returns a pattern that matches the spellings in which the configuration accepts
// the values.
func spellings(values []string) string {
	patterns := make([]string, len(values))
	for i, value := range values {
		patterns[i] = strings.NewReplacer("-", "[_-]", "_", "[_-]", ".", "[.]").Replace(inAnyCase(value))
	}
	return "^(" + strings.Join(patterns, "|") + ")$"
}

// inAnyCase returns a pattern that matches the name in upper or lower case.
func inAnyCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if lower, upper := strings.ToLower(string(r)), strings.ToUpper(string(r)); lower != upper {
			b.WriteString("[" + upper + lower + "]")
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
