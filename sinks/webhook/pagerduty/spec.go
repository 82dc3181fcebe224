package pagerduty

import "ndrbridge/sinks/webhook"

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:        "pagerduty",
		Address:     "not needed; in the EU https://events.eu.pagerduty.com/v2/enqueue",
		Limits:      "two events per second",
		Key:         "the routing key",
		KeyRequired: true,
		PublicPath:  true,
		Defaults:    webhook.PresetDefaults{URL: URL},
		Sample:      webhook.PresetSettings{URL: "https://pagerduty.example/v2/enqueue", Key: "routing-key"},
		Open:        func(s webhook.PresetSettings) (webhook.Preset, error) { return New(s) },
	}
}
