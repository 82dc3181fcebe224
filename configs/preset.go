package configs

import (
	"time"

	"ndrbridge/sinks/webhook/pagerduty"
)

// Values of Webhook.Preset.
const (
	PresetSlack         = "slack"
	PresetTeams         = "teams"
	PresetDiscord       = "discord"
	PresetPagerDuty     = "pagerduty"
	PresetSplunkHEC     = "splunk_hec"
	PresetElasticsearch = "elasticsearch"
	PresetDatadog       = "datadog"
)

// Presets returns the names of the presets, in the order in which they are listed.
func Presets() []string {
	return []string{PresetSlack, PresetTeams, PresetDiscord, PresetPagerDuty, PresetSplunkHEC, PresetElasticsearch, PresetDatadog}
}

// sinkDefaults sets the defaults that depend on other keys of a sink: on its preset, or on
// whether it redacts. Keys that are set stay as they are.
func (p *sourceLines) sinkDefaults(config *Config) {
	for i := range config.Sinks {
		s := &config.Sinks[i]
		path := item("sinks", i)
		if s.Match != "" {
			onError := "send"
			if len(s.Redact) > 0 {
				onError = "dead_letter"
			}
			fallback(p, path+".on_error", &s.OnError, onError)
		}
		if s.Webhook == nil {
			continue
		}
		switch s.Webhook.Preset {
		case PresetSlack, PresetTeams, PresetDiscord:
			p.chatLag(path+".lag", &s.Lag, config.Journal.MaxBytes)
			if s.Webhook.Preset == PresetSlack && s.Webhook.Key.IsSet() {
				fallback(p, path+".webhook.updates", &s.Webhook.Updates, "edit")
			}
		case PresetPagerDuty:
			fallback(p, path+".webhook.url", &s.Webhook.URL, NewURL(pagerduty.URL))
		case PresetSplunkHEC:
			fallback(p, path+".batch.max_bytes", &s.Batch.MaxBytes, 4*MiB)
			// This includes the time that an indexer has to acknowledge.
			fallback(p, path+".webhook.timeout", &s.Webhook.Timeout, Duration(5*time.Minute))
		case PresetElasticsearch, PresetDatadog:
			fallback(p, path+".batch.max_bytes", &s.Batch.MaxBytes, 4*MiB)
			fallback(p, path+".webhook.gzip", &s.Webhook.Gzip, true)
		}
	}
}

// chatLag sets the lag defaults of a chat, which skips old events, so that it never fills
// the journal. A chat with policy block gets no limits.
func (p *sourceLines) chatLag(path string, l *Lag, journal Size) {
	fallback(p, path+".policy", &l.Policy, LagSkip)
	if l.Policy == LagSkip {
		fallback(p, path+".max_age", &l.MaxAge, Duration(6*time.Hour))
		fallback(p, path+".max_bytes", &l.MaxBytes, journal/4)
	}
}

// fallback sets *to to value unless the key at path is set.
func fallback[T any](p *sourceLines, path string, to *T, value T) {
	if !p.isSet(path) {
		*to = value
	}
}
