// Package pagerduty sends alerts to PagerDuty, by the Events API v2.
package pagerduty

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// URL is where PagerDuty takes alerts. In the EU service region the host is
// events.eu.pagerduty.com.
const URL = "https://events.pagerduty.com/v2/enqueue"

// Options say where alerts go.
type Options struct {
	// URL is that of the webhook: URL, or the same at another host.
	URL string
	// RoutingKey is the integration key of a service, which is secret.
	RoutingKey string
}

// Preset sends an event as what it is to those on call:
//
//   - A detection is an alert of its own, whose deduplication key all its versions
//     share. It triggers while nobody has taken it up, is acknowledged when it is
//     acknowledged or in progress, and resolves when it is closed.
//   - What the bridge tells of itself that needs a person is an alert: an appliance
//     that cannot be polled, which resolves when it can be again, and what was lost.
//   - All else is a change event, which wakes nobody. It needs the key of a service:
//     PagerDuty takes no change events from rulesets.
//
// An event that is sent again, from the dead letters or a replay, is what it was: an
// alert that nobody was told of is to be told of. So a version that is older than the
// detection's close opens the alert again, until a later version, which a replay brings
// along, closes it.
type Preset struct {
	key    string
	alerts *url.URL
	change *url.URL
}

var _ webhook.Preset = (*Preset)(nil)

// New makes a preset. The error tells the option that is wrong.
func New(o Options) (*Preset, error) {
	if o.RoutingKey == "" {
		return nil, errors.New("pagerduty: the routing key is missing")
	}
	alerts, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("pagerduty: url cannot be parsed")
	}
	alerts.User = nil
	alerts.Path = strings.TrimRight(alerts.Path, "/")
	change := *alerts
	change.Path = strings.TrimSuffix(alerts.Path, "/enqueue") + "/change/enqueue"
	return &Preset{key: o.RoutingKey, alerts: alerts, change: &change}, nil
}

// Service keeps to 120 events a minute: PagerDuty moves its limits with the load,
// and answers 429 beyond them.
func (p *Preset) Service() webhook.Service {
	return webhook.Service{Secrets: []string{p.key}, RequestsPerSecond: 2}
}

// Compose makes the request of the first event.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	e := events[0]
	c := card.Of(e)
	to := p.alerts
	m := message{RoutingKey: p.key, Payload: newPayload(c)}
	if c.Link != "" {
		m.Links = []link{{c.Link, "Open the detection"}}
	}
	if m.EventAction = actionOf(e, c); m.EventAction == "" {
		to = p.change
	} else {
		m.DedupKey = dedupKey(e)
		m.Payload.Severity = severities[c.Level]
		m.Payload.Component, m.Payload.Group = e.Appliance, e.Stream()
		m.Client = "ndrbridge"
	}
	body, err := json.Marshal(m, json.Deterministic(true))
	if err != nil {
		return webhook.Request{}, sinks.Unsendable("encode the event: %w", err)
	}
	return webhook.Request{Events: 1, Body: body, URL: to}, nil
}

// actionOf says what becomes of an event's alert; empty: it is none.
func actionOf(e transform.Event, c card.Card) string {
	if e.Stream() == transform.StreamDetections {
		switch c.Status {
		case "closed":
			return "resolve"
		case "acknowledged", "in_progress":
			return "acknowledge"
		}
		return "trigger"
	}
	switch {
	case strings.HasSuffix(e.Type, ".appliance.reachable"):
		return "resolve"
	case e.Stream() == transform.StreamEvents && c.Level > card.Info:
		return "trigger"
	}
	return ""
}

// dedupKey is the key that events of one alert share: of a detection, and of an
// appliance that is reachable or not. Of other events it is their own.
func dedupKey(e transform.Event) string {
	const limit = 255
	key := strings.TrimPrefix(e.Source, "ndrbridge://") + "/"
	switch {
	case e.Stream() == transform.StreamDetections:
		key += e.Subject
	case strings.HasSuffix(e.Type, ".appliance.reachable"), strings.HasSuffix(e.Type, ".appliance.unreachable"):
		key += "unreachable"
	default:
		key += e.ID
	}
	if len(key) > limit {
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:])
	}
	return key
}

// Judge reads PagerDuty's answer. A key that is wrong is answered like an event that
// is, by 400, and told by the words alone.
func (p *Preset) Judge(_ webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	var said struct {
		Message string   `json:"message"`
		Errors  []string `json:"errors"`
	}
	_ = json.Unmarshal(a.Body, &said) // what is no JSON has no such words
	words := strings.ToLower(said.Message + " " + strings.Join(said.Errors, " "))
	if a.Status == http.StatusBadRequest && (strings.Contains(words, "routing key") || strings.Contains(words, "routing_key")) {
		return nil, a.Error(sinks.Halted)
	}
	return nil, a.Refusal()
}
