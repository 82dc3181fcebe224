package discord

import (
	"strings"
	"time"

	"ndrbridge/sinks/webhook/card"
)

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
