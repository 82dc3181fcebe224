// Package card summarizes events for people in a chat or a pager: a card is a short
// text in parts, which each service formats and escapes in its own way.
package card

import (
	"net/url"
	"strings"
	"time"
	"unicode/utf16"

	"ndrbridge/transform"
)

// Card is the summary of an event. Its texts are single lines of plain text from
// untrusted sources: escape them, and cut them to the lengths that a service accepts.
type Card struct {
	// Level is the severity; audit log entries and records have SeverityUnknown.
	Level transform.Severity
	// Score is the risk score as the appliance wrote it; empty if there is none.
	Score string
	// Title says what happened, or names the detection; never empty.
	Title string
	// Note says what the event is, and of which appliance; may be empty.
	Note string
	// Facts are further details, the most important first; at most MaxFacts.
	Facts []Fact
	// Link is an absolute http or https URL of a page about the event; empty if there
	// is none.
	Link string
	// Status is a detection's status; empty if it has none, or for other events.
	Status string
	// Where is the machine concerned: the first offender, else the first victim, else
	// the appliance.
	Where     string
	Appliance string
	// Time is when it happened; zero if unknown.
	Time time.Time
}

// Fact is a value with a name; names are set by the bridge.
type Fact struct{ Name, Value string }

// MaxFacts is the maximum number of facts on a card.
const MaxFacts = 10

// Headline returns the title, after the severity and the score if there is one.
func (c Card) Headline() string {
	if c.Score == "" {
		return c.Title
	}
	return capitalized(c.Level) + " " + c.Score + ": " + c.Title
}

// capitalized returns the word of a severity for the beginning of a text.
func capitalized(s transform.Severity) string {
	word := s.String()
	return strings.ToUpper(word[:1]) + word[1:]
}

// Of returns the card of an event of any kind.
func Of(e transform.Event) Card {
	c := Card{Appliance: e.Appliance, Where: e.Appliance, Time: e.When()}
	switch e.Stream() {
	case transform.StreamDetections:
		c.detection(e)
	case transform.StreamAudit:
		c.audit(e)
	case transform.StreamRecords:
		c.record(e)
	default:
		c.own(e)
	}
	if c.Title == "" {
		c.Title = line(e.Type + " " + e.ID)
	}
	return c
}

// fact adds a fact unless its value is empty or the card is full.
func (c *Card) fact(name, value string) {
	if value = line(value); value != "" && len(c.Facts) < MaxFacts {
		c.Facts = append(c.Facts, Fact{name, value})
	}
}

// line returns text as a single line: runs of white space become one space, and
// invisible characters that affect the text around them, such as direction marks, are
// removed.
func line(text string) string {
	text = strings.Map(func(c rune) rune {
		switch {
		case c == '\u2028' || c == '\u2029' || c < ' ':
			return ' '
		case 0x7f <= c && c < 0xa0, // controls
			c == '\u200b' || c == '\u200e' || c == '\u200f' || c == '\ufeff' || c == '\u061c',
			'\u202a' <= c && c <= '\u202e', '\u2060' <= c && c <= '\u206f': // direction marks and the like
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, "\ufffd"))
	return strings.Join(strings.Fields(text), " ")
}

// maxLink is the longest link, in bytes, that every service accepts.
const maxLink = 2000

// link returns text if it is an absolute http or https URL that a button may open;
// otherwise "".
func link(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		return ""
	}
	// The escaped form contains neither spaces nor brackets.
	if text = strings.NewReplacer("(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "|", "%7C", `"`, "%22", "\\", "%5C", "`", "%60", " ", "%20").Replace(u.String()); len(text) > maxLink {
		return ""
	}
	return text
}

// Escaper returns a character escaped so that a service displays it literally. The
// result must not depend on the characters around it.
type Escaper func(c rune) string

// Ellipsis ends a truncated text.
const Ellipsis = "…"

// Fit escapes text and truncates it to limit, between two characters and never within
// an escape sequence. Lengths are in UTF-16 code units, which is what services count,
// or more than they count. limit must be at least 1.
func Fit(text string, limit int, escape Escaper) string {
	var b strings.Builder
	length := 0
	short := 0 // length in bytes at which an ellipsis still fits
	for _, c := range text {
		piece := escape(c)
		units := Length(piece)
		if length+units > limit {
			return b.String()[:short] + Ellipsis
		}
		b.WriteString(piece)
		if length += units; length+Length(Ellipsis) <= limit {
			short = b.Len()
		}
	}
	return b.String()
}

// Plain is the Escaper for fields without markup.
func Plain(c rune) string { return string(c) }

// Length returns the number of UTF-16 code units of text.
func Length(text string) int {
	n := 0
	for _, c := range text {
		n += utf16.RuneLen(c)
	}
	return n
}
