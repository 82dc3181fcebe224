package slack

import "ndrbridge/sinks/webhook"

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:          "slack",
		Address:       "an incoming webhook's; or https://slack.com/api, for a bot",
		Limits:        "one message or edit per second",
		Key:           "a bot token",
		KeyAuthorizes: true,
		Keys:          []string{"channel", "updates"},
		Chat:          true,
		Defaults:      webhook.PresetDefaults{Updates: Edit},
		Sample:        webhook.PresetSettings{URL: "https://slack.example/services/T0/B0/a-hook"},
		Check:         checkSettings,
		Open:          func(s webhook.PresetSettings) (webhook.Preset, error) { return New(s) },
	}
}

func checkSettings(s webhook.PresetSettings) (errs []webhook.SettingError) {
	switch {
	case s.Channel != "" && s.Key == "":
		errs = append(errs, webhook.SettingError{Key: "channel", Problem: "is set without key_file, a bot token; set both, or neither for an incoming webhook, which has a fixed channel"})
	case s.Channel == "" && s.Key != "":
		errs = append(errs, webhook.SettingError{Key: "channel", Problem: "is missing; a bot (key) requires the id or the name of the channel to post in"})
	}
	if s.Updates != "" && s.Key == "" {
		errs = append(errs, webhook.SettingError{Key: "updates", Problem: "is set without key_file, a bot token: an incoming webhook cannot change its messages; leave it out"})
	}
	return errs
}
