package configs

import (
	"time"

	"ndrbridge/sinks/webhook/pagerduty"
)

// The presets of webhooks.
const (
	PresetSlack         = "slack"
	PresetTeams         = "teams"
	PresetDiscord       = "discord"
	PresetPagerDuty     = "pagerduty"
	PresetSplunkHEC     = "splunk_hec"
	PresetElasticsearch = "elasticsearch"
	PresetDatadog       = "datadog"
)

// Presets are the names of the presets, in the order in which they are told.
func Presets() []string {
	return []string{PresetSlack, PresetTeams, PresetDiscord, PresetPagerDuty, PresetSplunkHEC, PresetElasticsearch, PresetDatadog}
}

// sinkDefaults gives keys that nobody set the defaults that depend on their sink's
// other keys: on its preset, or on whether it redacts.
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
			// It is the time that an indexer has to acknowledge.
			fallback(p, path+".webhook.timeout", &s.Webhook.Timeout, Duration(5*time.Minute))
		case PresetElasticsearch, PresetDatadog:
			fallback(p, path+".batch.max_bytes", &s.Batch.MaxBytes, 4*MiB)
			fallback(p, path+".webhook.gzip", &s.Webhook.Gzip, true)
		}
	}
}

// chatLag lets a chat skip what is too old to be news, so that it never holds the
// journal up. The bounds serve that alone: a chat that is to block has none.
func (p *sourceLines) chatLag(path string, l *Lag, journal Size) {
	fallback(p, path+".policy", &l.Policy, LagSkip)
	if l.Policy == LagSkip {
		fallback(p, path+".max_age", &l.MaxAge, Duration(6*time.Hour))
		fallback(p, path+".max_bytes", &l.MaxBytes, journal/4)
	}
}

// fallback sets what the key at path stands for, where nobody did.
func fallback[T any](p *sourceLines, path string, to *T, value T) {
	if !p.isSet(path) {
		*to = value
	}
}
