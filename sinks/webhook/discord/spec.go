package discord

import "ndrbridge/sinks/webhook"

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:    "discord",
		Address: "of a channel's webhook",
		Limits:  "one message in two seconds",
		Chat:    true,
		Sample:  webhook.PresetSettings{URL: "https://discord.example/api/webhooks/1/a-hook"},
		Open:    func(s webhook.PresetSettings) (webhook.Preset, error) { return New(s.URL) },
	}
}
