// Package teams posts Adaptive Cards to a chat or channel of Microsoft Teams, by a
// workflow that is triggered by a webhook request.
package teams

import (
	"net/url"
	"regexp"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:    "teams",
		Address: "of a workflow that a webhook request starts",
		Limits:  "one message per second",
		About:   "a channel of Microsoft Teams",
		Example: `    webhook:
      preset: teams
      url_file: ./teams.url # a file with the workflow's URL, which is a secret
    match: detection.risk_score >= 80 # leave it out for all events
`,
		Chat:   true,
		Sample: webhook.PresetSettings{URL: "https://teams.example/workflows/a-flow"},
		New:    open,
	}
}

// maxMessage is the maximum size of a message in bytes. Teams's limit is 28 KB; the
// difference is for what the workflow adds.
const maxMessage = 26 << 10

// open returns the preset. It posts one message for each Send, or several if the cards do not
// fit into one. Up to card.Few events have a card each; more are combined into one summary. A
// workflow answers before it posts, so whether Teams has shown the message is not known.
//
// Teams accepts four messages per second from a connector, but a workflow's run takes longer.
func open(webhook.PresetSettings, *url.URL) (*webhook.Preset, error) {
	return &webhook.Preset{
		Header:            map[string]string{"Content-Type": "application/json; charset=utf-8"},
		RequestsPerSecond: 1,
		Undivided:         true, // one summary of a burst, not several
		Compose:           compose, Judge: judge,
	}, nil
}

// compose returns one message with as many events as fit.
func compose(events []transform.Event) (webhook.Request, error) {
	n := len(events)
	for cards := card.OfAll(events); ; cards = cards[:n] {
		r, err := webhook.Request{Events: n}.EncodeJSON(newMessage(cards))
		// A single card always fits.
		if err != nil || len(r.Body) <= maxMessage || len(cards) == 1 {
			return r, err
		}
		n = len(cards) - 1
	}
}

var (
	// delivery matches a connector's answer, with status 200, if Teams did not accept
	// the message.
	delivery = regexp.MustCompile(`(?i)delivery failed|endpoint returned HTTP error`)
	status   = regexp.MustCompile(`HTTP error (\d{3})`)
	// misconfigured matches workflow errors that do not depend on the message,
	// whatever their status.
	misconfigured = regexp.MustCompile(`"code"\s*:\s*"(WorkflowTriggerIsNotEnabled|WorkflowNotFound|WorkflowTriggerNotFound|WorkflowDisabled|DirectApiAuthorizationRequired|DirectApiRequestHasMoreThanOneAuthorization|AuthorizationFailed|MissingApiVersionParameter)"`)
)

// judge classifies the workflow's answer.
func judge(_ webhook.Request, a webhook.Answer) error {
	if a.Status/100 == 2 {
		if !delivery.Match(a.Body) {
			return nil
		}
		class := failure.Transient
		if m := status.FindSubmatch(a.Body); m != nil {
			switch string(m[1]) {
			case "429":
				class = failure.Throttled
			case "400", "413":
				class = failure.Rejected
			case "401", "403", "404", "410":
				class = failure.Halted
			}
		}
		return a.Error(class)
	}
	if misconfigured.Match(a.Body) {
		return a.Error(failure.Halted)
	}
	return a.Refusal()
}

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
func fit(text string, limit int) string { return card.Fit(text, limit, escape) }

// escape puts a zero-width space after each opening brace: two braces, or a dollar sign
// and a brace, begin a function or template that a card's host evaluates.
func escape(c rune) string {
	if c == '{' {
		return "{\u200b"
	}
	return string(c)
}
