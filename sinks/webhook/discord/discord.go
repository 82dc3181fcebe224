// Package discord posts cards to a channel of Discord, by a webhook.
package discord

import (
	"fmt"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"ndrbridge/internal/retryafter"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// Preset posts a message for every Send, or a few. Up to card.Few events have an
// embed each in it, as far as they fit; more are one summary.
type Preset struct{ url *url.URL }

var _ webhook.Preset = (*Preset)(nil)

// New makes a preset for the webhook at a URL. The error does not tell the URL,
// which holds a token.
func New(address string) (*Preset, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("discord: url cannot be parsed")
	}
	// Without it, Discord answers before it has kept the message, and a message that
	// it does not keep is no error.
	query := u.Query()
	query.Set("wait", "true")
	u.RawQuery = query.Encode()
	u.User = nil
	return &Preset{u}, nil
}

// Service keeps to the thirty messages a minute that a channel takes, and to one
// summary of a burst.
func (*Preset) Service() webhook.Service {
	return webhook.Service{RequestsPerSecond: 0.5, Undivided: true}
}

// Compose makes one message of as many events as fit.
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

// The codes of Discord's errors that are about the webhook, whatever the status.
const (
	unknownChannel      = 10003
	unknownWebhook      = 10015
	maxActiveThreads    = 160006
	unauthorized        = 40001
	invalidWebhookToken = 50027
	missingAccess       = 50001
	missingPermissions  = 50013
	threadNeeded        = 220001 // a forum's webhook needs a thread, which url may name
)

// Judge reads Discord's answer. A wait that its body tells is in seconds, with a
// fraction, and more exact than that of the header.
func (*Preset) Judge(_ webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	refusal := a.Refusal()
	if refusal == nil {
		return nil, nil
	}
	var said struct {
		Code       int     `json:"code"`
		RetryAfter float64 `json:"retry_after"`
	}
	_ = json.Unmarshal(a.Body, &said) // a proxy may have answered
	class, wait := sinks.ClassOf(refusal)
	switch said.Code {
	case unknownChannel, unknownWebhook, maxActiveThreads, unauthorized, invalidWebhookToken, missingAccess, missingPermissions, threadNeeded:
		class = sinks.Halted
	}
	if class == sinks.Throttled && said.RetryAfter > 0 {
		asked := min(said.RetryAfter, retryafter.Max.Seconds())
		wait = max(wait, time.Duration(asked*float64(time.Second)))
	}
	err := a.Error(class)
	err.RetryAfter = wait
	return nil, err
}
