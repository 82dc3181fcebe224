// Package datadog sends events to Datadog's log intake, version 2.
package datadog

import (
	"errors"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// Options say how events are sent.
type Options struct {
	// URL is that of the intake; empty, or that of a relay: whether the key is valid
	// is not asked.
	URL string
	// APIKey is an API key.
	APIKey string
	// Service is the logs' service; empty: ndrbridge.
	Service string
	// Tags are the logs' tags beside ours, such as env:prod.
	Tags []string
	// Now is the time; nil: that of the system.
	Now func() time.Time
}

// Preset sends batches of logs, each with a line for a person and the whole
// CloudEvent as its attribute event.
//
// A log's timestamp is the event's time, but for events that are older, or further
// ahead, than what the intake takes: those have the time at which they come in, and
// theirs in event.time alone.
type Preset struct{ o Options }

var _ webhook.Preset = (*Preset)(nil)

// New makes a preset. The error tells that the key is missing.
func New(o Options) (*Preset, error) {
	if o.APIKey == "" {
		return nil, errors.New("datadog: the API key is missing")
	}
	if o.Service == "" {
		o.Service = "ndrbridge"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Preset{o}, nil
}

// Service has the API key.
func (p *Preset) Service() webhook.Service {
	return webhook.Service{Header: map[string]string{"DD-API-KEY": p.o.APIKey}}
}

// body keeps to the limits of the intake. It would take a log that is too large, and
// cut it: we say that it is.
var body = webhook.Body{MaxEvents: 1000, MaxBytes: 5_000_000, MaxEvent: 1_000_000, Open: "[", Between: ",", Close: "]"}

// Compose makes an array of the leading events.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	return body.Compose(events, p.appendLog)
}

// Judge reads the status: 202 takes all.
func (p *Preset) Judge(_ webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	return nil, a.Refusal()
}

// The intake takes logs of up to 18 hours ago and two hours ahead. We stay an hour
// within, for clocks that differ.
const (
	oldest = 17 * time.Hour
	ahead  = time.Hour
)

// statuses are Datadog's words for a level.
var statuses = [...]string{"info", "info", "warn", "error", "critical"}

// appendLog appends a log, with the attributes that Datadog gives a meaning.
func (p *Preset) appendLog(dst []byte, e transform.Event) (_ []byte, err error) {
	member := func(name, value string) {
		if err == nil {
			dst, err = webhook.AppendMember(dst, name, value)
		}
	}
	c := card.Brief(e)
	tags := "appliance:" + e.Appliance + ",stream:" + e.Stream()
	for _, tag := range p.o.Tags {
		tags += "," + tag
	}
	dst = append(dst, '{')
	member("message", card.Fit(c.Headline(), 1000, card.Plain))
	member("ddsource", "ndrbridge")
	member("ddtags", tags)
	member("hostname", e.Appliance)
	member("service", p.o.Service)
	member("status", statuses[c.Level])
	if age := p.o.Now().Sub(c.Time); -ahead <= age && age <= oldest {
		member("timestamp", c.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	dst = append(append(append(dst, `"event":`...), e.Structured()...), '}')
	return dst, err
}
