// Package datadog sends events to Datadog's log intake, version 2.
package datadog

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
	"time"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// Preset sends batches of logs, each with a readable message and the whole event, in the
// sink's format, as its attribute event. If the format is text, that is the message.
//
// A log's timestamp is the event's time. If the event is older or further in the future
// than the intake accepts, the log gets its time of arrival, and only event.time has
// the event's.
type Preset struct {
	s   webhook.PresetSettings
	now func() time.Time
}

var _ webhook.Preset = (*Preset)(nil)

// New returns a Preset, or an error if the Key, an API key, is missing. URL is that of the
// log intake or of a relay; Service is the logs' service, ndrbridge if empty; Tags are
// additional tags, such as env:prod. now is the clock.
func New(s webhook.PresetSettings, now func() time.Time) (*Preset, error) {
	if s.Key == "" {
		return nil, errors.New("datadog: the API key is missing")
	}
	return &Preset{s, now}, nil
}

// Service returns the header with the API key.
func (p *Preset) Service() webhook.Service {
	return webhook.Service{Header: map[string]string{"DD-API-KEY": p.s.Key}}
}

// body holds the limits of the intake. The intake would truncate a larger log silently;
// Compose returns an error for it.
var body = webhook.Body{MaxEvents: 1000, MaxBytes: 5_000_000, MaxEvent: 1_000_000, Open: "[", Between: ",", Close: "]"}

// Compose returns an array of logs for the leading events.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	return body.Compose(events, p.appendLog)
}

// Judge accepts the whole batch on status 2xx.
func (p *Preset) Judge(_ webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	return nil, a.Refusal()
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
func (p *Preset) appendLog(dst []byte, e transform.Event) (_ []byte, err error) {
	c, text := card.Brief(e), p.s.Format.IsText()
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
		dst, err = webhook.AppendMembers(dst, "timestamp", c.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	if text {
		return append(dst[:len(dst)-len(",")], '}'), err
	}
	return append(append(append(dst, `"event":`...), e.Payload()...), '}'), err
}

var _ webhook.Checker = (*Preset)(nil)

// CheckRequests asks the site's API whether the API key is valid; its host is not that
// of the intake. For a relay, the API's host is unknown, and there is no check.
func (p *Preset) CheckRequests() []webhook.CheckRequest {
	target, err := url.Parse(p.s.URL)
	if err != nil {
		return nil
	}
	site, ok := strings.CutPrefix(target.Host, "http-intake.logs.")
	if !ok {
		return nil
	}
	target.Host = "api." + site
	target.Path, target.RawPath, target.RawQuery, target.User = "/api/v1/validate", "", "", nil
	return []webhook.CheckRequest{{Step: "key", URL: target, Judge: func(a webhook.Answer) finding.Finding {
		return a.Finding("the site knows the API key", "check key, which must be an API key, not an application key, and that url belongs to the key's site")
	}}}
}
