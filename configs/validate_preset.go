package configs

import (
	"net/url"
	"slices"
	"strings"
)

// presetKeys describes the keys that a preset has in addition to those of every webhook.
type presetKeys struct {
	secret   string   // meaning of the key "key"; empty if the preset does not support it
	required bool     // whether "key" is required
	signsIn  bool     // whether "key" is sent in the Authorization header
	others   []string // additional keys
}

func keysOfPreset(name string) (keys presetKeys, known bool) {
	switch name {
	case PresetSlack:
		return presetKeys{secret: "a bot token", signsIn: true, others: []string{"channel", "updates"}}, true
	case PresetTeams, PresetDiscord:
		return presetKeys{}, true
	case PresetPagerDuty:
		return presetKeys{secret: "the routing key", required: true}, true
	case PresetSplunkHEC:
		return presetKeys{secret: "the collector token", required: true, signsIn: true, others: []string{"index", "source_type"}}, true
	case PresetElasticsearch:
		return presetKeys{secret: "an API key", signsIn: true}, true
	case PresetDatadog:
		return presetKeys{secret: "an API key", required: true, others: []string{"service", "tags"}}, true
	}
	return presetKeys{}, false
}

// preset checks the keys of presets, and the other keys whose values a preset restricts.
func (c checks) preset(path string, w Webhook) {
	keys, known := keysOfPreset(w.Preset)
	if !known && w.Preset != "" {
		return // reported by the oneof tag
	}
	c.presetOnly(path, w, keys)
	if w.Preset == "" {
		return
	}
	if w.Method != "POST" {
		c.wrong(path+".method", "%q is not supported by preset %s, which supports POST", w.Method, w.Preset)
	}
	if keys.required && !w.Key.IsSet() && !c.failedSecret(path+".key") {
		c.wrong(path+".key_file", "is missing; preset %s needs %s: set it, or the variable %s", w.Preset, keys.secret, variableOf(path+".key_file"))
	}
	if keys.signsIn && w.Key.IsSet() {
		c.signsInOnce(path, w)
	}
	switch w.Preset {
	case PresetSlack:
		c.slackBot(path, w)
	case PresetSplunkHEC:
		if at := pathOf(w.URL); strings.Trim(at, "/") != "" && !strings.Contains(at, "/services/collector") {
			c.wrong(path+".url", "has a path other than that of an event collector; write https://host:8088, or append /services/collector/event")
		}
	case PresetElasticsearch:
		if index := strings.TrimSuffix("/"+strings.Trim(pathOf(w.URL), "/"), "/_bulk"); w.URL.Value() != "" && strings.Trim(index, "/") == "" {
			c.wrong(path+".url", "has no index; write https://host:9200/ followed by the index or data stream")
		}
	case PresetDatadog:
		for i, tag := range w.Tags {
			if tag == "" || strings.ContainsAny(tag, ", \t\n") {
				c.wrong(item(path+".tags", i), "%q is not a tag; write a name, a colon and a value without blanks and commas, such as env:prod", tag)
			}
		}
	}
}

// presetOnly reports keys that the preset does not support, or that require a preset.
func (c checks) presetOnly(path string, w Webhook, keys presetKeys) {
	allowed := keys.others
	if keys.secret != "" {
		allowed = append([]string{"key"}, allowed...)
	}
	for _, key := range []struct {
		name string
		set  bool
	}{
		{"key", w.Key.IsSet()},
		{"channel", w.Channel != ""},
		{"updates", w.Updates != ""},
		{"index", w.Index != ""},
		{"source_type", w.SourceType != ""},
		{"service", w.Service != ""},
		{"tags", len(w.Tags) > 0},
	} {
		at := path + "." + key.name
		if key.name == "key" && w.Key.File != "" {
			at += fileSuffix
		}
		switch {
		case !key.set || slices.Contains(allowed, key.name):
		case w.Preset == "":
			c.wrong(at, "requires preset; set preset, or leave it out")
		case len(allowed) == 0:
			c.wrong(at, "is not supported by preset %s, which takes everything from url; leave it out", w.Preset)
		default:
			c.wrong(at, "is not supported by preset %s, which supports %s; leave it out", w.Preset, strings.Join(allowed, ", "))
		}
	}
}

// signsInOnce reports other keys that set the Authorization header, which key sets too.
func (c checks) signsInOnce(path string, w Webhook) {
	const one = "is set, and so is key, which preset %s sends in the Authorization header; keep one of them"
	if w.Auth != (WebhookAuth{}) {
		c.wrong(path+".auth", one, w.Preset)
	}
	for name := range w.Headers {
		if strings.EqualFold(name, "Authorization") {
			c.wrong(join(path+".headers", printable(name)), one, w.Preset)
		}
	}
	if parsed, err := url.Parse(w.URL.Value()); err == nil && parsed.User != nil {
		c.wrong(path+".url", "has a user name, and key is set, which preset %s sends in the Authorization header; keep one of them", w.Preset)
	}
}

func (c checks) slackBot(path string, w Webhook) {
	switch {
	case w.Channel != "" && !w.Key.IsSet() && !c.failedSecret(path+".key"):
		c.wrong(path+".channel", "is set without key_file, a bot token; set both, or neither for an incoming webhook, which has a fixed channel")
	case w.Channel == "" && w.Key.IsSet():
		c.wrong(path+".channel", "is missing; a bot (key) requires the id or the name of the channel to post in")
	}
	if w.Updates != "" && !w.Key.IsSet() && !c.failedSecret(path+".key") {
		c.wrong(path+".updates", "is set without key_file, a bot token: an incoming webhook cannot change its messages; leave it out")
	}
}

// pathOf returns the path of a URL, or "" if it has none or cannot be parsed.
func pathOf(u URL) string {
	parsed, err := url.Parse(u.Value())
	if err != nil {
		return ""
	}
	return parsed.Path
}
