package card

import (
	"encoding/json"
	"strconv"
	"strings"

	"ndrbridge/transform"
)

// followUpTitles say what happened, by the action of the event. A context has the title and the score
// of a version, because it may be shown instead of one.
var followUpTitles = map[string]string{
	"hidden": "No longer shown", "gone": "No longer shown", "shown": "Shown again", "noted": "Note", "evidence": "Evidence",
}

const (
	// maxNote bounds the text of a note, in UTF-16 code units.
	maxNote = 500
	// fewRecords is the number of records of an evidence that are shown.
	fewRecords = 3
	// maxReason is the length of a reason that the title can have, in UTF-16 code units.
	maxReason = 80
)

// followUp fills in the facts of an event that follows a detection's versions. The card has the
// detection's title and score already.
func (c *Card) followUp(e transform.Event) {
	var data struct {
		Visibility struct {
			Explanation text `json:"explanation"`
			Rules       []struct {
				ID          text   `json:"id"`
				Description text   `json:"description"`
				Author      text   `json:"author"`
				Expiration  millis `json:"expiration"`
			} `json:"rules"`
		} `json:"visibility"`
		Note struct {
			Text   text `json:"text"`
			Author text `json:"author"`
		} `json:"note"`
		Evidence struct {
			Records []json.RawMessage `json:"records"`
		} `json:"evidence"`
		Related []struct {
			ID    text `json:"id"`
			Title text `json:"title"`
		} `json:"related"`
	}
	unpack(e.Data(), &data)
	summary := e.FollowUpSummary()
	_, rest, _ := strings.Cut(summary, ": ")
	if title, found := followUpTitles[e.Action()]; found {
		if e.Action() == "noted" {
			title = joined(" by ", text(title), text(Fit(line(string(data.Note.Author)), maxReason, Plain)))
		} else if rest != "" && Length(rest) <= maxReason {
			title, rest = title+" ("+rest+")", ""
		}
		c.Title, c.Score = title+": "+c.Title, ""
		c.Note = strings.TrimSuffix(c.Note, ", "+e.Action())
	}
	switch e.Action() {
	case "hidden", "gone":
		c.fact("Why", rest)
		var rules []string
		for _, r := range data.Visibility.Rules {
			rule := joined(" of ", text(joined(" ", r.ID, bracketed(r.Description))), r.Author)
			rules = append(rules, joined(" until ", text(rule), text(r.Expiration.clock())))
		}
		c.fact("Rules", list(rules))
	case "shown":
		if why := string(data.Visibility.Explanation); why != "shown again" {
			c.fact("Why", why)
		}
	case "noted":
		if data.Note.Text != "" {
			c.fact("Text", Fit(string(data.Note.Text), maxNote, Plain))
		}
	case "context":
		c.Note = strings.TrimSuffix(c.Note, e.Action()) + "with what is known about its devices"
		c.fact("Devices", e.ContextSummary())
	case "evidence":
		c.fact("Records", rest)
		for i, record := range data.Evidence.Records[:min(len(data.Evidence.Records), fewRecords)] {
			c.fact("Record "+strconv.Itoa(i+1), recordLine(record))
		}
		var related []string
		for _, d := range data.Related {
			related = append(related, joined(" ", d.ID, d.Title))
		}
		c.fact("Related", list(related))
	default:
		c.fact("What", summary)
	}
	c.fact("Time", clock(c))
}

// bracketed returns a text in brackets, unless it is empty.
func bracketed(t text) text {
	if t == "" {
		return ""
	}
	return "(" + t + ")"
}
