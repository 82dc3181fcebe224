package elasticsearch

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
		Name:          "elasticsearch",
		Address:       "with the index or data stream: `https://es.example:9200/ndr`; without one, data streams of ECS; OpenSearch, too",
		Limits:        "2,000 events or 5 MiB per request",
		Key:           "an API key",
		KeyAuthorizes: true,
		Formats:       []format.Name{format.ECS, format.OCSF},
		PublicPath:    true,
		Defaults:      webhook.PresetDefaults{MaxBatchBytes: 4 << 20, Gzip: true, Concurrency: 4},
		Sample:        webhook.PresetSettings{URL: "https://elasticsearch.example/events"},
		Check:         checkSettings,
		Open:          func(s webhook.PresetSettings) (webhook.Preset, error) { return New(s, time.Now) },
	}
}

func checkSettings(s webhook.PresetSettings) []webhook.SettingError {
	u, err := url.Parse(s.URL)
	if s.URL == "" || err != nil {
		return nil
	}
	index := indexOf(u.Path)
	if other := strings.ReplaceAll(index, datasetVariable, ""); strings.ContainsAny(other, "{}") && !strings.Contains(other, "<") {
		return []webhook.SettingError{{Key: "url", Problem: "has an index with a placeholder that is not known; the only one is " + datasetVariable}}
	}
	if s.Format == format.ECS || index != "" {
		return nil
	}
	return []webhook.SettingError{{Key: "url", Problem: "has no index; write https://host:9200/ followed by the index or data stream, or set format: ecs for data streams"}}
}
