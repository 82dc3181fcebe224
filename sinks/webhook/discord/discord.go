// Package discord posts cards to a channel of Discord, by a webhook.
package discord

import (
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

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:    "discord",
		Address: "of a channel's webhook",
		Limits:  "one message in two seconds",
		About:   "a channel of Discord",
		Example: `    webhook:
      preset: discord
      url_file: ./discord.url # a file with the URL of the channel's webhook, which is a secret
    match: detection.risk_score >= 80 # leave it out for all events
`,
		Chat:   true,
		Sample: webhook.PresetSettings{URL: "https://discord.example/api/webhooks/1/a-hook"},
		New:    open,
	}
}

// open returns the preset for the webhook at target. It posts one message for each Send, or
// several if the embeds do not fit into one, at the rate of thirty messages per minute that a
// channel accepts. Up to card.Few events have an embed each; more are combined into one
// summary.
func open(_ webhook.PresetSettings, target *url.URL) (*webhook.Preset, error) {
	hook := *target
	hook.RawQuery = ""
	// Without wait, Discord answers before it has stored the message, and does not
	// report a message that it fails to store.
	query := target.Query()
	query.Set("wait", "true")
	target.RawQuery = query.Encode()
	return &webhook.Preset{
		RequestsPerSecond: 0.5, Undivided: true,
		Compose: func(events []transform.Event) (webhook.Request, error) { return compose(events, target) },
		Judge:   judge,
		Checks: []webhook.CheckRequest{{Step: "webhook", URL: &hook, Judge: func(a webhook.Answer) finding.Finding {
			return a.Finding("Discord knows the webhook", "copy url again from the channel's settings, Integrations, Webhooks")
		}}},
	}, nil
}

// compose returns one message with as many events as fit.
func compose(events []transform.Event, target *url.URL) (webhook.Request, error) {
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
	return webhook.Request{Events: n, URL: target}.EncodeJSON(m)
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

// judge classifies Discord's answer. The wait in the body is in seconds with a
// fraction, and more exact than that in the header.
func judge(_ webhook.Request, a webhook.Answer) error {
	refusal := a.Refusal()
	if refusal == nil {
		return nil
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
	return err
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
		Title:       card.Fit(c.Headline(), maxTitle, escape),
		Description: card.Fit(c.Note, maxFact, escape),
		URL:         c.Link,
		Color:       colors[c.Level],
	}
	if !c.Time.IsZero() {
		e.Timestamp = c.Time.UTC().Format(time.RFC3339)
	}
	for _, f := range c.Facts {
		value := card.Fit(f.Value, maxFact, escape)
		e.Fields = append(e.Fields, field{Name: card.Fit(f.Name, maxName, escape), Value: value, Inline: card.Length(value) < 40})
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

// escape puts a backslash before characters special in Discord's Markdown: emphasis,
// code, quotes, headings, lists, links (by brackets, or by the colon of a bare URL),
// mentions, emoji and times.
func escape(c rune) string {
	if strings.ContainsRune("\\*_~`|<>#-+[]():@{}", c) {
		return `\` + string(c)
	}
	return string(c)
}
