package webhook

import (
	"fmt"
	"net/url"
	"time"

	"ndrbridge/transform/format"
)

// PresetSpec describes a preset: how it is configured, documented and opened. Every
// preset's package has one, and package presets lists them.
type PresetSpec struct {
	// Name is the value of the key preset in the configuration.
	Name string
	// Address describes the key url in the documentation; Limits, how much the preset
	// sends at most.
	Address, Limits string
	// About says where an example of ndrbridge config new delivers; Example has the keys of
	// its sink besides the name.
	About, Example string
	// Guide says what to do at the service.
	Guide
	// Key describes the key named key, such as "the collector token"; empty means that
	// the preset does not support it.
	Key string
	// KeyRequired means that the key must be set.
	KeyRequired bool
	// KeyAuthorizes means that the key is sent in the Authorization header.
	KeyAuthorizes bool
	// OAuthScope is the scope of the OAuth client credentials that the preset requires,
	// unless another is configured; empty means that it does not require OAuth.
	OAuthScope string
	// Keys are the names of the other keys of PresetSettings that the preset supports.
	Keys []string
	// Formats are the formats that the preset can send besides CloudEvents; empty means
	// that it sends messages of its own.
	Formats []format.Name
	// Chat means that people read what is sent: by default, old events are skipped.
	Chat bool
	// PublicPath means that the path of the URL contains no secret, so it may be shown.
	PublicPath bool
	// Defaults are used for keys that are not set.
	Defaults PresetDefaults
	// Sample are valid settings with placeholders, and without keys that are optional.
	Sample PresetSettings
	// Check returns the errors in settings that do not follow from the fields above; nil
	// means that there are none. In its argument, only the presence of Key counts: the
	// value may be a placeholder.
	Check func(PresetSettings) []SettingError
	// New returns the preset for settings that are checked, and their URL without
	// credentials. The error names the faulty setting, without its value.
	New func(s PresetSettings, target *url.URL) (*Preset, error)
}

// Guide says what to do at a destination, for ndrbridge config new and the pages in docs/start.
// An empty Guide is none.
type Guide struct {
	Title   string // the name of the destination
	Prepare string // what to create there, and what that gives; a sentence without its period
	Look    string // where to see an event; likewise
}

// Open returns the preset for some settings. The error names the faulty setting, without
// its value.
func (p PresetSpec) Open(s PresetSettings) (*Preset, error) {
	if p.KeyRequired && s.Key == "" {
		return nil, fmt.Errorf("%s: key is missing", p.Name)
	}
	if p.Check != nil {
		for _, e := range p.Check(s) {
			return nil, fmt.Errorf("%s: %s %s", p.Name, e.Key, e.Problem)
		}
	}
	target, err := url.Parse(s.URL)
	if err != nil { // not wrapped: it would quote the URL
		return nil, fmt.Errorf("%s: url cannot be parsed", p.Name)
	}
	target.User = nil
	preset, err := p.New(s, target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return preset, nil
}

// PresetSettings are the keys of a webhook's configuration, and of its sink, that presets
// read. A preset documents those that it supports.
type PresetSettings struct {
	URL               string
	Key               string // the secret
	Channel, Updates  string
	Index, SourceType string
	Service           string
	Tags              []string
	RuleID, Stream    string

	// Format is the format of the documents that the events carry, a key of the sink;
	// empty means CloudEvents. The documents of a text format are lines, not JSON.
	Format format.Name
}

// PresetDefaults are defaults that a preset has instead of those of every webhook. A zero
// value leaves the webhook's default.
type PresetDefaults struct {
	URL           string
	Updates       string // only if the key is set
	MaxBatchBytes int64
	Timeout       time.Duration
	Gzip          bool
	Concurrency   int // 0 means 1
}

// SettingError is an error in a preset's settings.
type SettingError struct {
	Key     string // relative to the webhook, such as url or tags[1]
	Problem string // what is wrong and what to write instead, without secrets
}
