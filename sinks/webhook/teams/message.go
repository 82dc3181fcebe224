package teams

import (
	"ndrbridge/sinks/webhook/card"
)

// The lengths to which texts are truncated, so that a card with card.MaxFacts facts
// stays far below the limit of a message.
const (
	maxTitle = 300
	maxNote  = 300
	maxFact  = 500
)

// message is the input of a workflow: an attachment with an Adaptive Card.
type message struct {
	Type        string       `json:"type"`
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	ContentType string       `json:"contentType"`
	Content     adaptiveCard `json:"content"`
}

// adaptiveCard is an Adaptive Card 1.4, which all Teams clients support.
type adaptiveCard struct {
	Type         string         `json:"type"`
	Schema       string         `json:"$schema"`
	Version      string         `json:"version"`
	FallbackText string         `json:"fallbackText"`
	MSTeams      map[string]any `json:"msteams"`
	Body         []container    `json:"body"`
}

type container struct {
	Type      string `json:"type"`
	Style     string `json:"style,omitempty"`
	Separator bool   `json:"separator,omitzero"`
	Items     []item `json:"items"`
}

// item is a RichTextBlock or an ActionSet.
//
// Untrusted text is only in text runs, in which Adaptive Cards interpret no Markdown:
// no links, no emphasis. A mention would need an entity, and there is none.
type item struct {
	Type    string   `json:"type"`
	Inlines []run    `json:"inlines,omitempty"`
	Spacing string   `json:"spacing,omitempty"`
	Actions []action `json:"actions,omitempty"`
}

type run struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Weight string `json:"weight,omitempty"`
	Size   string `json:"size,omitempty"`
	Subtle bool   `json:"isSubtle,omitzero"`
}

type action struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

// styles are the container styles of the levels.
var styles = [...]string{"default", "accent", "warning", "warning", "attention"}

func newMessage(cards []card.Card) message {
	content := adaptiveCard{
		Type: "AdaptiveCard", Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Version: "1.4",
		FallbackText: fit(cards[0].Headline(), maxTitle),
		MSTeams:      map[string]any{"width": "Full"},
	}
	for i, c := range cards {
		content.Body = append(content.Body, newContainer(c, i > 0))
	}
	return message{
		Type:        "message",
		Attachments: []attachment{{ContentType: "application/vnd.microsoft.card.adaptive", Content: content}},
	}
}

func newContainer(c card.Card, separator bool) container {
	items := []item{rich("", run{Text: fit(c.Headline(), maxTitle), Weight: "Bolder", Size: "Medium"})}
	if c.Note != "" {
		items = append(items, rich("None", run{Text: fit(c.Note, maxNote), Subtle: true}))
	}
	for _, f := range c.Facts {
		items = append(items, rich("Small", run{Text: f.Name + ": ", Weight: "Bolder"}, run{Text: fit(f.Value, maxFact)}))
	}
	if c.Link != "" {
		items = append(items, item{Type: "ActionSet", Actions: []action{{"Action.OpenUrl", "Open", c.Link}}})
	}
	return container{Type: "Container", Style: styles[c.Level], Separator: separator, Items: items}
}

func rich(spacing string, runs ...run) item {
	for i := range runs {
		runs[i].Type = "TextRun"
	}
	return item{Type: "RichTextBlock", Spacing: spacing, Inlines: runs}
}

// fit escapes and truncates text.
func fit(text string, limit int) string { return card.Fit(text, limit, Escape) }

// Escape puts a zero-width space after each opening brace: two braces, or a dollar sign
// and a brace, begin a function or template that a card's host evaluates.
func Escape(c rune) string {
	if c == '{' {
		return "{\u200b"
	}
	return string(c)
}
