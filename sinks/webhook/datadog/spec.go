package datadog

import (
	"fmt"
	"strings"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/transform/format"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:        "datadog",
		Address:     "of your site: https://http-intake.logs.datadoghq.com/api/v2/logs",
		Limits:      "1,000 events or 5 MB per request, 1 MB per event; an event older than 17 hours, or more than an hour ahead, gets the time of its arrival, and its own in `event.time`",
		Key:         "an API key",
		KeyRequired: true,
		Keys:        []string{"service", "tags"},
		Formats:     format.Names()[1:],
		PublicPath:  true,
		Defaults:    webhook.PresetDefaults{MaxBatchBytes: 4 << 20, Gzip: true, Concurrency: 4},
		Sample:      webhook.PresetSettings{URL: "https://datadog.example/events", Key: "api-key"},
		Check:       checkSettings,
		Open:        func(s webhook.PresetSettings) (webhook.Preset, error) { return New(s, time.Now) },
	}
}

func checkSettings(s webhook.PresetSettings) (errs []webhook.SettingError) {
	for i, tag := range s.Tags {
		if tag == "" || strings.ContainsAny(tag, ", \t\n") {
			errs = append(errs, webhook.SettingError{
				Key:     fmt.Sprintf("tags[%d]", i),
				Problem: fmt.Sprintf("%q is not a tag; write a name, a colon and a value without blanks and commas, such as env:prod", tag),
			})
		}
	}
	return errs
}
