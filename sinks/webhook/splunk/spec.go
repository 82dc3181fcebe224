package splunk

import (
	"net/url"
	"strings"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/transform/format"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:          "splunk_hec",
		Address:       "of the HTTP Event Collector",
		Limits:        "1,000 events or 1 MB per request",
		Key:           "the collector token",
		KeyRequired:   true,
		KeyAuthorizes: true,
		Keys:          []string{"index", "source_type"},
		Formats:       format.Names()[1:],
		PublicPath:    true,
		// The timeout includes the time that an indexer has to acknowledge.
		Defaults: webhook.PresetDefaults{MaxBatchBytes: 4 << 20, Timeout: 5 * time.Minute, Concurrency: 8},
		Sample:   webhook.PresetSettings{URL: "https://splunk.example:8088", Key: "token"},
		Check:    checkSettings,
		Open:     func(s webhook.PresetSettings) (webhook.Preset, error) { return New(s) },
	}
}

func checkSettings(s webhook.PresetSettings) []webhook.SettingError {
	u, err := url.Parse(s.URL)
	if err != nil || strings.Trim(u.Path, "/") == "" || strings.Contains(u.Path, "/services/collector") {
		return nil
	}
	return []webhook.SettingError{{Key: "url", Problem: "has a path other than that of an event collector; write https://host:8088, or append /services/collector/event"}}
}
