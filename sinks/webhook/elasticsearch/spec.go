package elasticsearch

import (
	"net/url"
	"strings"

	"ndrbridge/sinks/webhook"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:          "elasticsearch",
		Address:       "with the index or data stream: `https://es.example:9200/ndr`; OpenSearch, too",
		Limits:        "2,000 events or 5 MiB per request",
		Key:           "an API key",
		KeyAuthorizes: true,
		PublicPath:    true,
		Defaults:      webhook.PresetDefaults{MaxBatchBytes: 4 << 20, Gzip: true},
		Sample:        webhook.PresetSettings{URL: "https://elasticsearch.example/events"},
		Check:         checkSettings,
		Open: func(s webhook.PresetSettings) (webhook.Preset, error) {
			return New(Options{URL: s.URL, APIKey: s.Key})
		},
	}
}

func checkSettings(s webhook.PresetSettings) []webhook.SettingError {
	if s.URL == "" {
		return nil
	}
	path := ""
	if u, err := url.Parse(s.URL); err == nil {
		path = u.Path
	}
	if index := strings.TrimSuffix("/"+strings.Trim(path, "/"), "/_bulk"); strings.Trim(index, "/") != "" {
		return nil
	}
	return []webhook.SettingError{{Key: "url", Problem: "has no index; write https://host:9200/ followed by the index or data stream"}}
}
