// Package card makes of an event what a person is shown of it in a chat or a
// pager: a short text in parts, which each service lays out and escapes in its
// own way.
package card

import (
	"net/url"
	"strings"
	"time"

	"ndrbridge/transform"
)

// Level is how bad something is, in the words that people use. A higher one is
// worse.
type Level int

// The levels. Detections without a risk score, and what is only told, are Info.
const (
	Info Level = iota
	Low
	Medium
	High
	Critical
)

// String is the word that a person is shown.
func (l Level) String() string {
	return [...]string{"Info", "Low", "Medium", "High", "Critical"}[l]
}

// Card is what a person is shown of an event. All its texts are single lines of
// plain text that others may have written: whoever lays it out escapes them, and
// cuts them to the lengths that a service takes.
type Card struct {
	Level Level
	// Score is the risk score as the appliance wrote it; empty: none.
	Score string
	// Title says what happened, or names the detection; never empty.
	Title string
	// Note says what this is, of which appliance; may be empty.
	Note string
	// Facts are what is known besides, the most telling first: ten at most.
	Facts []Fact
	// Link is an absolute http or https URL of a page about it; empty: none.
	Link string
	// Status is a detection's status; empty: none, or not a detection.
	Status string
	// Where is the machine that it is about: the first offender, else the first
	// victim, else the appliance.
	Where     string
	Appliance string
	// Time is when it happened; zero: not known.
	Time time.Time
}

// Fact is a name, which is ours, with a value.
type Fact struct{ Name, Value string }

// MaxFacts is how many facts a card has at most.
const MaxFacts = 10

// Headline is the title behind the severity's word and the score.
func (c Card) Headline() string {
	if c.Score == "" {
		return c.Title
	}
	return c.Level.String() + " " + c.Score + ": " + c.Title
}

// Brief is Of without what takes long to find: the level, the score, the title, the
// appliance and the time, at least.
func Brief(e transform.Event) Card {
	if e.Stream() != transform.StreamDetections {
		return Of(e)
	}
	c := begin(e)
	c.name(e)
	return c
}

func begin(e transform.Event) Card {
	return Card{Appliance: e.Appliance, Where: e.Appliance, Time: e.When()}
}

// Of makes the card of an event of any kind.
func Of(e transform.Event) Card {
	c := begin(e)
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

// fact adds a fact where there is one, and space.
func (c *Card) fact(name, value string) {
	if value = line(value); value != "" && len(c.Facts) < MaxFacts {
		c.Facts = append(c.Facts, Fact{name, value})
	}
}

// line is text as one line: white space of any kind is one space, and what is
// not seen but changes how the text around it is read is left out.
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

// maxLink is how long a link may be: what every service takes.
const maxLink = 2000

// link is text where it is an absolute http or https URL that a button may open.
func link(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		return ""
	}
	// As it is written again it holds neither spaces nor brackets.
	if text = strings.NewReplacer("(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "|", "%7C", `"`, "%22", "\\", "%5C", "`", "%60", " ", "%20").Replace(u.String()); len(text) > maxLink {
		return ""
	}
	return text
}
