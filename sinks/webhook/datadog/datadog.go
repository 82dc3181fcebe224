// Package datadog sends events to Datadog's log intake, version 2.
package datadog

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:    "datadog",
		Address: "of your site: https://http-intake.logs.datadoghq.com/api/v2/logs",
		Limits:  "1,000 events or 5 MB per request, 1 MB per event; an event older than 17 hours, or more than an hour ahead, gets the time of its arrival, and its own in `event.time`",
		About:   "the logs of Datadog",
		Example: `    webhook:
      preset: datadog
      url: https://http-intake.logs.datadoghq.eu # of your site
      key_file: ./datadog.key # a file with the API key
`,
		Key:         "an API key",
		KeyRequired: true,
		Keys:        []string{"service", "tags"},
		Formats:     format.Names()[1:],
		PublicPath:  true,
		Defaults:    webhook.PresetDefaults{MaxBatchBytes: 4 << 20, Gzip: true, Concurrency: 4},
		Sample:      webhook.PresetSettings{URL: "https://datadog.example/events", Key: "api-key"},
		Check:       checkSettings,
		New: func(s webhook.PresetSettings, target *url.URL) (*webhook.Preset, error) {
			return open(s, target, time.Now), nil
		},
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

// preset sends batches of logs, each with a readable message and the whole event, in the
// sink's format, as its attribute event. If the format is text, that is the message.
//
// A log's timestamp is the event's time. If the event is older or further in the future
// than the intake accepts, the log gets its time of arrival, and only event.time has
// the event's.
type preset struct {
	s   webhook.PresetSettings
	now func() time.Time
}

// open returns the preset for the log intake or a relay at target. Service is the logs'
// service, ndrbridge if empty; Tags are additional tags, such as env:prod. now is the clock.
// A status of 2xx accepts a whole batch.
func open(s webhook.PresetSettings, target *url.URL, now func() time.Time) *webhook.Preset {
	p := preset{s, now}
	return &webhook.Preset{
		Header: map[string]string{"DD-API-KEY": s.Key},
		// The intake would truncate a larger log silently; an event that takes more is rejected.
		Compose: webhook.Body{Encode: p.appendLog, MaxEvents: 1000, MaxBytes: 5_000_000, MaxEvent: 1_000_000, Open: "[", Between: ",", Close: "]"}.Compose,
		Checks:  checks(*target),
	}
}

// The intake accepts logs up to 18 hours old and two hours ahead. One hour of margin
// allows for differing clocks.
const (
	oldest = 17 * time.Hour
	ahead  = time.Hour
)

// statuses are Datadog's names of the levels.
var statuses = [...]string{"info", "info", "warn", "error", "critical"}

// appendLog appends a log with Datadog's reserved attributes.
func (p preset) appendLog(dst []byte, e transform.Event) (_ []byte, err error) {
	c, text := card.Of(e), p.s.Format.IsText()
	message := card.Fit(c.Headline(), 1000, card.Plain)
	if text {
		message = string(e.Payload())
	}
	tags := "appliance:" + e.Appliance + ",stream:" + e.Stream()
	for _, tag := range p.s.Tags {
		tags += "," + tag
	}
	dst, err = webhook.AppendMembers(append(dst, '{'),
		"message", message, "ddsource", "ndrbridge", "ddtags", tags, "hostname", e.Appliance,
		"service", cmp.Or(p.s.Service, "ndrbridge"), "status", statuses[c.Level])
	if age := p.now().Sub(c.Time); err == nil && -ahead <= age && age <= oldest {
		dst, err = webhook.AppendMembers(dst, "timestamp", string(transform.AppendTime(nil, c.Time)))
	}
	if text {
		return append(dst[:len(dst)-len(",")], '}'), err
	}
	return append(append(append(dst, `"event":`...), e.Payload()...), '}'), err
}

// checks asks the site's API whether the API key is valid; its host is not that of the
// intake. For a relay, the API's host is unknown, and there is no check.
func checks(target url.URL) []webhook.CheckRequest {
	site, ok := strings.CutPrefix(target.Host, "http-intake.logs.")
	if !ok {
		return nil
	}
	target.Host = "api." + site
	target.Path, target.RawPath, target.RawQuery = "/api/v1/validate", "", ""
	return []webhook.CheckRequest{{Step: "key", URL: &target, Judge: func(a webhook.Answer) finding.Finding {
		return a.Finding("the site knows the API key", "check key, which must be an API key, not an application key, and that url belongs to the key's site")
	}}}
}
