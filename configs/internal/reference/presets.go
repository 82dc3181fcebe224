package main

import (
	"fmt"
	"reflect"
	"strings"

	"ndrbridge/configs"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/transform/format"
)

// defaultsOf lists the defaults that a preset has instead of those of other webhooks, in Markdown.
func defaultsOf(p webhook.PresetSpec) string {
	var defaults []string
	add := func(key string, value any) {
		if !reflect.ValueOf(value).IsZero() {
			defaults = append(defaults, fmt.Sprintf("`%s: %v`", key, value))
		}
	}
	d := p.Defaults
	add("url", d.URL)
	add("timeout", configs.Duration(d.Timeout))
	add("gzip", d.Gzip)
	add("concurrency", max(1, d.Concurrency))
	add("batch.max_bytes", configs.Size(d.MaxBatchBytes))
	add("auth.oauth.scope", p.OAuthScope)
	if p.Chat {
		add("lag.policy", configs.LagSkip)
	}
	return strings.Join(defaults, ", ")
}

// formatsOf returns the formats that a preset supports, in Markdown.
func formatsOf(p webhook.PresetSpec) string {
	switch len(p.Formats) {
	case 0:
		return ""
	case len(format.Names()) - 1:
		return "all"
	}
	supported := "`" + string(format.CloudEvents) + "`"
	for _, name := range p.Formats {
		supported += ", `" + string(name) + "`"
	}
	return supported
}

// presetTable returns a table of the presets in Markdown.
func presetTable() string {
	var b strings.Builder
	b.WriteString("| preset | `url` | `key` | other keys | `format` | other defaults | sends at most |\n|---|---|---|---|---|---|---|\n")
	for _, p := range presets.All() {
		key, others := p.Key, ""
		if key != "" && !p.KeyRequired {
			key += ", optional"
		}
		if len(p.Keys) > 0 {
			others = "`" + strings.Join(p.Keys, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", p.Name, p.Address, key, others, formatsOf(p), defaultsOf(p), p.Limits)
	}
	return b.String()
}
