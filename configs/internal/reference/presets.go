package main

import (
	"fmt"
	"strconv"
	"strings"

	"ndrbridge/configs"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/transform/format"
)

// presetDoc returns the sentence that the presets add to the documentation of a field, or
// "" if there is none.
func presetDoc(path string) string {
	const absent = "Absent, with a preset: "
	switch path {
	case "Webhook.Key":
		return "By preset: " + byPreset(func(p webhook.PresetSpec) string {
			if p.KeyRequired {
				return p.Key + ", required"
			}
			return p.Key
		})
	case "Webhook.URL":
		return absent + byPreset(func(p webhook.PresetSpec) string { return p.Defaults.URL })
	case "Webhook.Timeout":
		return absent + byPreset(func(p webhook.PresetSpec) string { return unlessZero(configs.Duration(p.Defaults.Timeout)) })
	case "Webhook.Gzip":
		return absent + byPreset(func(p webhook.PresetSpec) string { return unlessZero(p.Defaults.Gzip) })
	case "Webhook.Concurrency":
		return absent + byPreset(func(p webhook.PresetSpec) string { return strconv.Itoa(max(1, p.Defaults.Concurrency)) })
	case "WebhookOAuth.Scope":
		return absent + byPreset(func(p webhook.PresetSpec) string { return p.OAuthScope })
	case "Lag.Policy":
		return absent + byPreset(func(p webhook.PresetSpec) string {
			if p.Chat {
				return configs.LagSkip
			}
			return ""
		})
	case "Batch.MaxBytes":
		return absent + byPreset(func(p webhook.PresetSpec) string { return unlessZero(configs.Size(p.Defaults.MaxBatchBytes)) })
	}
	return ""
}

func unlessZero[T comparable](value T) string {
	if value == *new(T) {
		return ""
	}
	return fmt.Sprint(value)
}

// byPreset lists the texts of all presets, each with the presets that have it. It leaves
// out empty texts.
func byPreset(textOf func(webhook.PresetSpec) string) string {
	var texts []string
	names := make(map[string][]string)
	for _, p := range presets.All() {
		text := textOf(p)
		if text == "" {
			continue
		}
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], p.Name)
	}
	for i, text := range texts {
		texts[i] = text + " (" + strings.Join(names[text], ", ") + ")"
	}
	return strings.Join(texts, "; ") + "."
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
	b.WriteString("| preset | `url` | `key` | other keys | `format` | sends at most |\n|---|---|---|---|---|---|\n")
	for _, p := range presets.All() {
		key, others := p.Key, ""
		if key != "" && !p.KeyRequired {
			key += ", optional"
		}
		if len(p.Keys) > 0 {
			others = "`" + strings.Join(p.Keys, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", p.Name, p.Address, key, others, formatsOf(p), p.Limits)
	}
	return b.String()
}
