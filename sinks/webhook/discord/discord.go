// Package discord posts cards to a channel of Discord, by a webhook.
package discord

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/retryafter"
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
		return webhook.Request{}, failure.Unsendable("encode the message: %w", err)
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
	class, wait := failure.ClassOf(refusal)
	switch reply.Code {
	case unknownChannel, unknownWebhook, maxActiveThreads, unauthorized, invalidWebhookToken, missingAccess, missingPermissions, threadNeeded:
		class = failure.Halted
	}
	if class == failure.Throttled && reply.RetryAfter > 0 {
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

// Discord's limits (see its reference of the message resource), in characters.
const (
	maxTitle  = 256
	maxName   = 256
	maxEmbeds = 6000 // of all texts of all embeds of a message
)

// maxFact is the length to which facts are truncated, so that an embed with
// card.MaxFacts facts stays within maxEmbeds.
const maxFact = 400

type message struct {
	Embeds          []embed  `json:"embeds"`
	AllowedMentions mentions `json:"allowed_mentions"`
}

// mentions lists the kinds of mentions to parse; an empty Parse disables them all.
type mentions struct {
	Parse []string `json:"parse"`
}

type embed struct {
	Title       string  `json:"title"`
	Description string  `json:"description,omitempty"`
	URL         string  `json:"url,omitempty"`
	Timestamp   string  `json:"timestamp,omitempty"`
	Color       int     `json:"color"`
	Fields      []field `json:"fields,omitempty"`
	Footer      *footer `json:"footer,omitempty"`
}

type field struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Inline bool   `json:"inline"`
}

type footer struct {
	Text string `json:"text"`
}

var colors = [...]int{0x95a5a6, 0x3498db, 0xf1c40f, 0xe67e22, 0xe74c3c}

func newEmbed(c card.Card) embed {
	e := embed{
		Title:       card.Fit(c.Headline(), maxTitle, Escape),
		Description: card.Fit(c.Note, maxFact, Escape),
		URL:         c.Link,
		Color:       colors[c.Level],
	}
	if !c.Time.IsZero() {
		e.Timestamp = c.Time.UTC().Format(time.RFC3339)
	}
	for _, f := range c.Facts {
		value := card.Fit(f.Value, maxFact, Escape)
		e.Fields = append(e.Fields, field{Name: card.Fit(f.Name, maxName, Escape), Value: value, Inline: card.Length(value) < 40})
	}
	if c.Appliance != "" {
		e.Footer = &footer{card.Fit(c.Appliance, maxName, card.Plain)}
	}
	return e
}

// length returns the number of characters that count towards maxEmbeds.
func (e embed) length() int {
	n := card.Length(e.Title) + card.Length(e.Description)
	for _, f := range e.Fields {
		n += card.Length(f.Name) + card.Length(f.Value)
	}
	if e.Footer != nil {
		n += card.Length(e.Footer.Text)
	}
	return n
}

// Escape puts a backslash before characters special in Discord's Markdown: emphasis,
// code, quotes, headings, lists, links (by brackets, or by the colon of a bare URL),
// mentions, emoji and times.
func Escape(c rune) string {
	if strings.ContainsRune("\\*_~`|<>#-+[]():@{}", c) {
		return `\` + string(c)
	}
	return string(c)
}
