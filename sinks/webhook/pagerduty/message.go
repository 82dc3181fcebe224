package pagerduty

import (
	"time"

	"ndrbridge/sinks/webhook/card"
)

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
