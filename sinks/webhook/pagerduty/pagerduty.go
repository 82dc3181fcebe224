// Package pagerduty sends alerts to PagerDuty, by the Events API v2.
package pagerduty

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:    "pagerduty",
		Address: "not needed; in the EU https://events.eu.pagerduty.com/v2/enqueue",
		Limits:  "two events per second",
		About:   "incidents in PagerDuty",
		Example: `    webhook:
      preset: pagerduty
      key_file: ./pagerduty.key # a file with the integration key of the service
    match: detection.risk_score >= 80 # leave it out for all events
`,
		Guide: webhook.Guide{
			Title: "PagerDuty", Prepare: "add the integration Events API v2 to a service; its integration key is the secret",
			Look: "the service has an alert for each detection of high risk, and resolves it when the detection is closed",
		},
		Key:         "the routing key",
		KeyRequired: true,
		PublicPath:  true,
		Defaults:    webhook.PresetDefaults{URL: "https://events.pagerduty.com/v2/enqueue"},
		Sample:      webhook.PresetSettings{URL: "https://pagerduty.example/v2/enqueue", Key: "routing-key"},
		New:         open,
	}
}

// preset sends each event as an alert or a change event:
//
//   - A detection is an alert; all its versions share a deduplication key. The alert
//     triggers until someone takes up the detection, is acknowledged when the
//     detection is acknowledged or in progress, and resolves when it is closed. It
//     also resolves when the appliance no longer shows the detection, and triggers again
//     when the appliance shows it again, unless it is closed. A context counts as a version;
//     other follow-ups are change events.
//   - An event of the bridge that needs a person's attention is an alert: lost data,
//     or an appliance that cannot be polled, which resolves when polling works again. A
//     changed tuning rule is a change event.
//   - A test event is an alert that resolves at once.
//   - Any other event is a change event, which pages nobody. It requires the key of a
//     service: PagerDuty accepts no change events for rulesets.
//
// An event that is redelivered, from the dead letters or by a replay, has its original
// effect, because nobody may have been alerted before. So a version from before the
// detection was closed reopens the alert until a later version, which a replay
// includes, resolves it.
type preset struct {
	key    string
	alerts *url.URL
	change *url.URL
}

// open returns the preset for the integration key of a service; target is the endpoint for
// alerts. The rate is below PagerDuty's own limits, which vary with its load; it answers 429
// beyond them.
func open(s webhook.PresetSettings, target *url.URL) (*webhook.Preset, error) {
	target.Path = strings.TrimRight(target.Path, "/")
	change := *target
	change.Path = strings.TrimSuffix(target.Path, "/enqueue") + "/change/enqueue"
	p := preset{key: s.Key, alerts: target, change: &change}
	return &webhook.Preset{Secrets: []string{s.Key}, RequestsPerSecond: 2, Compose: p.compose, Converse: p.converse}, nil
}

// converse sends the first event, and resolves the alert of a test.
func (p preset) converse(ctx context.Context, c *webhook.Conversation, events []transform.Event) (int, error) {
	err := p.send(ctx, c, events[0], "")
	if err == nil && events[0].IsTest() {
		err = p.send(ctx, c, events[0], "resolve")
	}
	return 1, err
}

func (p preset) send(ctx context.Context, c *webhook.Conversation, e transform.Event, action string) error {
	r, err := p.request(e, action)
	if err != nil {
		return err
	}
	a, err := c.Do(ctx, r)
	if err != nil {
		return err
	}
	return judge(a)
}

// compose returns the request for the first event.
func (p preset) compose(events []transform.Event) (webhook.Request, error) {
	return p.request(events[0], "")
}

// request returns the request for an event. action is that of its alert; if it is empty, it
// follows from the event.
func (p preset) request(e transform.Event, action string) (webhook.Request, error) {
	c := card.Of(e)
	target := p.alerts
	m := message{RoutingKey: p.key, Payload: newPayload(c)}
	if c.Link != "" {
		m.Links = []link{{c.Link, "Open the detection"}}
	}
	if m.EventAction = cmp.Or(action, actionOf(e, c)); m.EventAction == "" {
		target = p.change
	} else {
		m.DedupKey = dedupKey(e)
		m.Payload.Severity = severities[c.Level]
		m.Payload.Component, m.Payload.Group = e.Appliance, e.Stream()
		m.Client = "ndrbridge"
	}
	return webhook.Request{Events: 1, URL: target}.EncodeJSON(m)
}

// actionOf returns the action for an event's alert, or "" for a change event.
func actionOf(e transform.Event, c card.Card) string {
	if e.Stream() == transform.StreamDetections {
		switch action := e.Action(); {
		case action == "hidden", action == "gone":
			return "resolve"
		case action == "shown" && c.Status != "closed":
			return "trigger"
		case !e.MayOpen() && action != "shown":
			return ""
		}
		switch c.Status {
		case "closed":
			return "resolve"
		case "acknowledged", "in_progress":
			return "acknowledge"
		}
		return "trigger"
	}
	switch {
	case strings.HasSuffix(e.Type, ".appliance.reachable"), strings.HasSuffix(e.Type, ".sink.resumed"), strings.HasSuffix(e.Type, ".blindspot.closed"):
		return "resolve"
	case strings.Contains(e.Type, ".rule."):
		return ""
	case e.IsTest(), e.Stream() == transform.StreamEvents && c.Level > transform.SeverityLow:
		return "trigger"
	}
	return ""
}

// dedupKey returns the key shared by the events of one alert: those of a detection, or
// of an appliance's reachability, a sink's halt or a blind spot. Any other event has its own.
func dedupKey(e transform.Event) string {
	const limit = 255
	key := strings.TrimPrefix(e.Source, "ndrbridge://") + "/"
	switch {
	case e.Stream() == transform.StreamDetections:
		key += e.Subject
	case strings.HasSuffix(e.Type, ".appliance.reachable"), strings.HasSuffix(e.Type, ".appliance.unreachable"):
		key += "unreachable"
	case strings.HasSuffix(e.Type, ".sink.halted"), strings.HasSuffix(e.Type, ".sink.resumed"):
		key += "halted/" + e.Subject
	case strings.HasSuffix(e.Type, ".blindspot.opened"), strings.HasSuffix(e.Type, ".blindspot.closed"):
		key += "blindspot/" + transform.Text(jsonscan.At(e.Data(), "blindspot.kind")) + "/" + e.Subject
	default:
		key += e.ID
	}
	if len(key) > limit {
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:])
	}
	return key
}

// judge classifies PagerDuty's answer. An invalid key is answered with 400, like an invalid event;
// only the message differs.
func judge(a webhook.Answer) error {
	var reply struct {
		Message string   `json:"message"`
		Errors  []string `json:"errors"`
	}
	_ = json.Unmarshal(a.Body, &reply) // if it is not JSON, the message is empty
	message := strings.ToLower(reply.Message + " " + strings.Join(reply.Errors, " "))
	if a.Status == http.StatusBadRequest && (strings.Contains(message, "routing key") || strings.Contains(message, "routing_key")) {
		return a.Error(failure.Halted)
	}
	return a.Refusal()
}

const (
	// maxSummary is the limit of the Events API, in characters.
	maxSummary = 1024
	// maxDetail is the length to which details are truncated, so that an event stays
	// far below the limit of 512 KB.
	maxDetail = 4096
)

// message is an alert event, or a change event if it has no action.
type message struct {
	RoutingKey  string  `json:"routing_key"`
	EventAction string  `json:"event_action,omitempty"`
	DedupKey    string  `json:"dedup_key,omitempty"`
	Payload     payload `json:"payload"`
	Links       []link  `json:"links,omitempty"`
	Client      string  `json:"client,omitempty"`
}

type payload struct {
	Summary   string            `json:"summary"`
	Source    string            `json:"source"`
	Severity  string            `json:"severity,omitempty"`
	Timestamp string            `json:"timestamp,omitempty"`
	Component string            `json:"component,omitempty"`
	Group     string            `json:"group,omitempty"`
	Details   map[string]string `json:"custom_details,omitempty"`
}

type link struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

// severities are PagerDuty's names of the levels.
var severities = [...]string{"info", "info", "warning", "error", "critical"}

func newPayload(c card.Card) payload {
	p := payload{
		Summary: card.Fit(c.Headline(), maxSummary, card.Plain),
		Source:  card.Fit(c.Where, maxSummary, card.Plain),
		Details: make(map[string]string, len(c.Facts)),
	}
	if !c.Time.IsZero() {
		p.Timestamp = c.Time.UTC().Format(time.RFC3339Nano)
	}
	if c.Note != "" {
		p.Details["Note"] = card.Fit(c.Note, maxDetail, card.Plain)
	}
	for _, f := range c.Facts {
		p.Details[f.Name] = card.Fit(f.Value, maxDetail, card.Plain)
	}
	return p
}
