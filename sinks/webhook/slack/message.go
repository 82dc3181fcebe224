package slack

import (
	"ndrbridge/sinks/webhook/card"
)

// What Block Kit allows (Slack's reference of blocks and composition objects), in
// characters.
const (
	maxHeader = 150
	maxButton = 3000 // of a button's URL
	// maxText is what a notification shows at most; a message could hold more.
	maxText = 1000
	// maxBlocks is how much all blocks of a message have, of some 12,000 that Slack
	// takes.
	maxBlocks = 11_000
)

// maxField is to what a field is cut, so that a card with as many facts as there can
// be stays within maxBlocks.
const maxField = 500

// message is a message of Block Kit.
//
// What others wrote stands in plain_text objects alone, in which Slack reads no
// markup: no bold, no link, no mention, no emoji.
type message struct {
	Channel string  `json:"channel,omitempty"`
	Thread  string  `json:"thread_ts,omitempty"` // the message that it replies to
	Text    string  `json:"text"`                // of notifications
	Markup  bool    `json:"mrkdwn"`
	Links   bool    `json:"unfurl_links"`
	Media   bool    `json:"unfurl_media"`
	Parse   string  `json:"parse"`
	Blocks  []block `json:"blocks"`
}

// edit is what a message is to show from now on.
type edit struct {
	Channel string  `json:"channel"`
	TS      string  `json:"ts"`
	Text    string  `json:"text"`
	Parse   string  `json:"parse"`
	Blocks  []block `json:"blocks"`
}

type block struct {
	Type     string   `json:"type"`
	Text     *text    `json:"text,omitempty"`
	Fields   []text   `json:"fields,omitempty"`
	Elements []button `json:"elements,omitempty"`
}

type text struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji bool   `json:"emoji"`
}

type button struct {
	Type string `json:"type"`
	Text text   `json:"text"`
	URL  string `json:"url"`
}

func plain(s string) text { return text{Type: "plain_text", Text: s} }

// marks show a level's colour beside its word.
var marks = [...]string{"⚪", "🔵", "🟡", "🟠", "🔴"}

// addAll appends as many of the cards as fit into a message, and returns how many
// that are. One alone always fits.
func (m *message) addAll(cards []card.Card) int {
	for i, c := range cards {
		longer := *m
		longer.add(c)
		if longer.length() > maxBlocks && i > 0 {
			return i
		}
		*m = longer
	}
	return len(cards)
}

// add appends a card: at most five blocks, of fifty that a message may have.
func (m *message) add(c card.Card) {
	if len(m.Blocks) > 0 {
		m.Blocks = append(m.Blocks, block{Type: "divider"})
		m.Text += "; "
	}
	m.Parse = "none"
	m.Text += card.Fit(c.Headline(), maxText/card.Few-2, Escape)

	mark := marks[c.Level] + " "
	title := plain(mark + card.Fit(c.Headline(), maxHeader-card.Length(mark), Escape))
	m.Blocks = append(m.Blocks, block{Type: "header", Text: &title})
	facts := block{Type: "section"}
	if c.Note != "" {
		note := plain(card.Fit(c.Note, maxField, Escape))
		facts.Text = &note
	}
	for _, f := range c.Facts {
		name := card.Fit(f.Name, maxHeader, Escape) + "\n"
		facts.Fields = append(facts.Fields, plain(name+card.Fit(f.Value, maxField-card.Length(name), Escape)))
	}
	if facts.Text != nil || facts.Fields != nil {
		m.Blocks = append(m.Blocks, facts)
	}
	if c.Link != "" && len(c.Link) <= maxButton {
		open := button{Type: "button", Text: plain("Open"), URL: c.Link}
		m.Blocks = append(m.Blocks, block{Type: "actions", Elements: []button{open}})
	}
}

// length is what counts towards maxBlocks.
func (m *message) length() int {
	n := 0
	for _, b := range m.Blocks {
		if b.Text != nil {
			n += card.Length(b.Text.Text)
		}
		for _, f := range b.Fields {
			n += card.Length(f.Text)
		}
		for _, e := range b.Elements {
			n += card.Length(e.Text.Text) + card.Length(e.URL)
		}
	}
	return n
}

// Escape writes the three characters that begin what Slack reads as a mention, a
// link or an entity.
func Escape(c rune) string {
	switch c {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	}
	return string(c)
}
