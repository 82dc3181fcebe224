package slack

import (
	"ndrbridge/sinks/webhook/card"
)

// Limits of Block Kit (see Slack's reference of blocks and composition objects), in
// characters.
const (
	maxHeader = 150
	maxButton = 3000 // of a button's URL
	// maxText is how much a notification shows; a message could be longer.
	maxText = 1000
	// maxBlocks limits the text of all blocks of a message. Slack accepts about 12,000.
	maxBlocks = 11_000
)

// maxField is the length to which a field is truncated, so that a card with
// card.MaxFacts facts stays within maxBlocks.
const maxField = 500

// message is a Block Kit message.
//
// Untrusted text is only in plain_text objects, in which Slack interprets no markup: no
// bold, no links, no mentions, no emoji.
type message struct {
	Channel string  `json:"channel,omitempty"`
	Thread  string  `json:"thread_ts,omitempty"` // the message it replies to
	Text    string  `json:"text"`                // shown in notifications
	Markup  bool    `json:"mrkdwn"`
	Links   bool    `json:"unfurl_links"`
	Media   bool    `json:"unfurl_media"`
	Parse   string  `json:"parse"`
	Blocks  []block `json:"blocks"`
}

// content replaces the content of a message.
type content struct {
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

// marks are the coloured symbols of the levels.
var marks = [...]string{"⚪", "🔵", "🟡", "🟠", "🔴"}

// add appends a card: at most five of the fifty blocks that a message may have.
func (m *message) add(c card.Card) {
	if len(m.Blocks) > 0 {
		m.Blocks = append(m.Blocks, block{Type: "divider"})
		m.Text += "; "
	}
	m.Parse = "none"
	m.Text += card.Fit(c.Headline(), maxText/card.Few-2, escape)

	mark := marks[c.Level] + " "
	title := plain(mark + card.Fit(c.Headline(), maxHeader-card.Length(mark), escape))
	m.Blocks = append(m.Blocks, block{Type: "header", Text: &title})
	facts := block{Type: "section"}
	if c.Note != "" {
		note := plain(card.Fit(c.Note, maxField, escape))
		facts.Text = &note
	}
	for _, f := range c.Facts {
		name := card.Fit(f.Name, maxHeader, escape) + "\n"
		facts.Fields = append(facts.Fields, plain(name+card.Fit(f.Value, maxField-card.Length(name), escape)))
	}
	if facts.Text != nil || facts.Fields != nil {
		m.Blocks = append(m.Blocks, facts)
	}
	if c.Link != "" && len(c.Link) <= maxButton {
		open := button{Type: "button", Text: plain("Open"), URL: c.Link}
		m.Blocks = append(m.Blocks, block{Type: "actions", Elements: []button{open}})
	}
}

// length returns the number of characters that count towards maxBlocks.
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

// escape escapes the three characters that begin a mention, a link or an entity.
func escape(c rune) string {
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
