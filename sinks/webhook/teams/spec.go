package teams

import "ndrbridge/sinks/webhook"

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:    "teams",
		Address: "of a workflow that a webhook request starts",
		Limits:  "one message per second",
		Chat:    true,
		Sample:  webhook.PresetSettings{URL: "https://teams.example/workflows/a-flow"},
		Open:    func(webhook.PresetSettings) (webhook.Preset, error) { return Preset{}, nil },
	}
}
