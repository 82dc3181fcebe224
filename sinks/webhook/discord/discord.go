// Package discord posts cards to a channel of Discord, by a webhook.
package discord

import (
	"fmt"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"ndrbridge/internal/retryafter"
	"ndrbridge/preflight/finding"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// Preset posts one message for each Send, or several if the embeds do not fit into one.
// Up to card.Few events have an embed each; more are combined into one summary.
type Preset struct{ url *url.URL }

var _ webhook.Preset = (*Preset)(nil)

// New returns a Preset for the webhook at address. The error does not quote the URL,
// which contains a token.
func New(address string) (*Preset, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("discord: url cannot be parsed")
	}
	// Without wait, Discord answers before it has stored the message, and does not
	// report a message that it fails to store.
	query := u.Query()
	query.Set("wait", "true")
	u.RawQuery = query.Encode()
	u.User = nil
	return &Preset{u}, nil
}

// Service limits the rate to the thirty messages per minute that a channel accepts, and
// keeps a burst in one summary.
func (*Preset) Service() webhook.Service {
	return webhook.Service{RequestsPerSecond: 0.5, Undivided: true}
}

// Compose returns one message with as many events as fit.
func (p *Preset) Compose(events []transform.Event) (webhook.Request, error) {
	m := message{AllowedMentions: mentions{Parse: []string{}}}
	n := len(events)
	length := 0
	for i, c := range card.OfAll(events) {
		next := newEmbed(c)
		if length += next.length(); length > maxEmbeds && i > 0 {
			n = i
			break
		}
		m.Embeds = append(m.Embeds, next)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return webhook.Request{}, sinks.Unsendable("encode the message: %w", err)
	}
	return webhook.Request{Events: n, Body: body, URL: p.url}, nil
}

// Discord's error codes that concern the webhook itself, regardless of the status.
const (
	unknownChannel      = 10003
	unknownWebhook      = 10015
	maxActiveThreads    = 160006
	unauthorized        = 40001
	invalidWebhookToken = 50027
	missingAccess       = 50001
	missingPermissions  = 50013
	threadNeeded        = 220001 // a forum's webhook requires a thread, which url may name
)

// Judge classifies Discord's answer. The wait in the body is in seconds with a
// fraction, and more exact than that in the header.
func (*Preset) Judge(_ webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	refusal := a.Refusal()
	if refusal == nil {
		return nil, nil
	}
	var reply struct {
		Code       int     `json:"code"`
		RetryAfter float64 `json:"retry_after"`
	}
	_ = json.Unmarshal(a.Body, &reply) // a proxy may have answered
	class, wait := sinks.ClassOf(refusal)
	switch reply.Code {
	case unknownChannel, unknownWebhook, maxActiveThreads, unauthorized, invalidWebhookToken, missingAccess, missingPermissions, threadNeeded:
		class = sinks.Halted
	}
	if class == sinks.Throttled && reply.RetryAfter > 0 {
		requested := min(reply.RetryAfter, retryafter.Max.Seconds())
		wait = max(wait, time.Duration(requested*float64(time.Second)))
	}
	err := a.Error(class)
	err.RetryAfter = wait
	return nil, err
}

var _ webhook.Checker = (*Preset)(nil)

// CheckRequests gets the webhook itself.
func (p *Preset) CheckRequests() []webhook.CheckRequest {
	target := *p.url
	target.RawQuery = ""
	return []webhook.CheckRequest{{Step: "webhook", URL: &target, Judge: func(a webhook.Answer) finding.Finding {
		return a.Finding("Discord knows the webhook", "copy url again from the channel's settings, Integrations, Webhooks")
	}}}
}
