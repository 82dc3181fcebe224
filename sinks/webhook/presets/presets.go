// Package presets lists the presets of webhooks. The configuration, its documentation, the
// checks and the bridge take them from this list.
package presets

import (
	"strings"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/datadog"
	"ndrbridge/sinks/webhook/discord"
	"ndrbridge/sinks/webhook/elasticsearch"
	"ndrbridge/sinks/webhook/pagerduty"
	"ndrbridge/sinks/webhook/sentinel"
	"ndrbridge/sinks/webhook/slack"
	"ndrbridge/sinks/webhook/splunk"
	"ndrbridge/sinks/webhook/teams"
)

// All returns all presets, in the order in which they are documented.
func All() []webhook.PresetSpec {
	return []webhook.PresetSpec{
		slack.Spec(),
		teams.Spec(),
		discord.Spec(),
		pagerduty.Spec(),
		splunk.Spec(),
		elasticsearch.Spec(),
		datadog.Spec(),
		sentinel.Spec(),
	}
}

// Names returns the names of the presets, in the order of All.
func Names() []string {
	var names []string
	for _, spec := range All() {
		names = append(names, spec.Name)
	}
	return names
}

// Find returns the preset with this name. It reports false if there is none.
func Find(name string) (spec webhook.PresetSpec, found bool) {
	for _, spec := range All() {
		if spec.Name == name {
			return spec, true
		}
	}
	return webhook.PresetSpec{}, false
}

// Expand splits a list of words that are separated by commas. It replaces {presets} by the
// names of the presets.
func Expand(list string) []string {
	return strings.Split(strings.ReplaceAll(list, "{presets}", strings.Join(Names(), ",")), ",")
}
