package configs

import (
	"slices"
	"strings"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/transform/format"
)

// PresetSettings returns the settings of the preset of the sink's webhook, with key as its
// secret.
func (s Sink) PresetSettings(key string) webhook.PresetSettings {
	w := s.Webhook
	return webhook.PresetSettings{
		Format: format.Name(s.Format),
		URL:    w.URL.Value(), Key: key, Channel: w.Channel, Updates: w.Updates,
		Index: w.Index, SourceType: w.SourceType, Service: w.Service, Tags: w.Tags,
		RuleID: w.RuleID, Stream: w.Stream,
	}
}

// sinkDefaults sets the defaults that depend on other keys of a sink: on its preset or mode,
// or on whether it redacts. Keys that are set stay as they are.
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
		preset, found := presets.Find(s.Webhook.Preset)
		if found {
			p.presetDefaults(path, s, preset, config.Journal.MaxBytes)
		}
		if found || s.Webhook.Ticket != nil || s.Mode == "batch" {
			fallback(p, path+".webhook.concurrency", &s.Webhook.Concurrency, max(1, preset.Defaults.Concurrency))
		}
	}
}

func (p *sourceLines) presetDefaults(path string, s *Sink, preset webhook.PresetSpec, journal Size) {
	if preset.Chat {
		p.chatLag(path+".lag", &s.Lag, journal)
	}
	w, d := s.Webhook, preset.Defaults
	if w.URLFile == "" {
		fallback(p, path+".webhook.url", &w.URL, NewURL(d.URL))
	}
	if w.Key.IsSet() {
		fallback(p, path+".webhook.updates", &w.Updates, d.Updates)
	}
	fallback(p, path+".batch.max_bytes", &s.Batch.MaxBytes, Size(d.MaxBatchBytes))
	fallback(p, path+".webhook.timeout", &w.Timeout, Duration(d.Timeout))
	fallback(p, path+".webhook.gzip", &w.Gzip, d.Gzip)
	if w.Auth.OAuth != nil {
		fallback(p, path+".webhook.auth.oauth.scope", &w.Auth.OAuth.Scope, preset.OAuthScope)
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

// fallback sets *to to value unless the key at path is set, or value is zero.
func fallback[T comparable](p *sourceLines, path string, to *T, value T) {
	if value != *new(T) && !p.isSet(path) {
		*to = value
	}
}

// preset checks the keys of presets, and the other keys whose values a preset restricts.
func (c checks) preset(path string, s Sink) {
	w := *s.Webhook
	preset, found := presets.Find(w.Preset)
	if !found && w.Preset != "" {
		return // reported as a value that is not permitted
	}
	c.presetOnly(path, w, preset)
	if w.Preset == "" {
		return
	}
	if w.Method != "POST" {
		c.wrong(path+".method", "%q is not supported by preset %s, which supports POST", w.Method, w.Preset)
	}
	key := ""
	if w.Key.IsSet() || c.failedSecret(path+".key") {
		key = "set"
	}
	if preset.KeyRequired && key == "" {
		c.wrong(path+".key_file", "is missing; preset %s needs %s: set it, or the variable %s", w.Preset, preset.Key, variableOf(path+".key_file"))
	}
	if preset.OAuthScope != "" && w.Auth.OAuth == nil && !c.failed(path+".auth.oauth") {
		c.wrong(path+".auth.oauth", "is missing; preset %s signs in with OAuth: set token_url, client_id and client_secret_file", w.Preset)
	}
	if preset.KeyAuthorizes && w.Key.IsSet() {
		c.authorizesOnce(path, w)
	}
	if preset.Check == nil {
		return
	}
	for _, e := range preset.Check(s.PresetSettings(key)) {
		c.wrong(join(path, e.Key), "%s", e.Problem)
	}
}

// presetKeys are the keys that only some presets support.
var presetKeys = []string{"key", "channel", "updates", "index", "source_type", "service", "tags", "rule_id", "stream"}

// presetOnly reports keys that the preset does not support, or that require a preset.
func (c checks) presetOnly(path string, w Webhook, preset webhook.PresetSpec) {
	allowed := preset.Keys
	if preset.Key != "" {
		allowed = append([]string{"key"}, allowed...)
	}
	for _, key := range setKeys(w) {
		at := path + "." + key
		if key == "key" && w.Key.File != "" {
			at += fileSuffix
		}
		switch {
		case !slices.Contains(presetKeys, key) || slices.Contains(allowed, key):
		case w.Preset == "":
			c.wrong(at, "requires preset; set preset, or leave it out")
		case len(allowed) == 0:
			c.wrong(at, "is not supported by preset %s, which takes everything from url; leave it out", w.Preset)
		default:
			c.wrong(at, "is not supported by preset %s, which supports %s; leave it out", w.Preset, strings.Join(allowed, ", "))
		}
	}
}

// authorizesOnce reports other keys that set the Authorization header, which key sets too.
func (c checks) authorizesOnce(path string, w Webhook) {
	const one = "is set, and so is key, which preset %s sends in the Authorization header; keep one of them"
	if w.Auth != (WebhookAuth{}) {
		c.wrong(path+".auth", one, w.Preset)
	}
	c.noAuthorization(path, w, one, w.Preset)
	if w.URL.hasUser() {
		c.wrong(path+".url", "has a user name, and key is set, which preset %s sends in the Authorization header; keep one of them", w.Preset)
	}
}
