package discord

import (
	"strings"
	"time"

	"ndrbridge/sinks/webhook/card"
)

// What Discord allows (its reference of the message resource), in characters.
const (
	maxTitle  = 256
	maxName   = 256
	maxEmbeds = 6000 // of all texts of all embeds of a message
)

// maxFact is to what a fact is cut, so that an embed with as many facts as there can
// be stays within maxEmbeds.
const maxFact = 400

type message struct {
	Embeds          []embed  `json:"embeds"`
	AllowedMentions mentions `json:"allowed_mentions"`
}

// mentions says whom a message may mention: an empty Parse, nobody.
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

// length is what counts towards maxEmbeds.
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

// Escape puts a backslash in front of what Discord's Markdown reads: emphasis,
// code, quotes, headings, lists, links (by brackets, or by the colon of a bare URL),
// mentions, emoji and times.
func Escape(c rune) string {
	if strings.ContainsRune("\\*_~`|<>#-+[]():@{}", c) {
		return `\` + string(c)
	}
	return string(c)
}
