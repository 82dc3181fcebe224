// Package terminal formats events, amounts and tables for people at a terminal.
package terminal

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"ndrbridge/transform"
)

// Summary describes an event for a person: the title of a detection and what changed or what a
// follow-up says, the action of an audit log entry, or the ticket or the reason of an event of the bridge
// itself. It may contain control characters; see Printable.
func Summary(e transform.Event) string {
	var data struct {
		Detection struct{ Title string }
		Changes   map[string]json.RawMessage
		Audit     struct{ Body json.RawMessage }

		Gap       struct{ Explanation string }
		Appliance struct{ Reason string }
		Skipped   struct{ Sink, Reason string }
		Sink      struct{ Name, Reason string }
		Rule      struct{ Description string }
		Blindspot struct{ Name string }
		Ticket    struct {
			TicketID        string `json:"ticket_id"`
			Message, Reason string
		}
	}
	// A field of an unexpected type stays empty, and the others are still read.
	_ = json.Unmarshal(e.Data(), &data)
	switch e.Stream() {
	case transform.StreamDetections:
		if e.IsFollowUp() {
			return join(": ", data.Detection.Title, e.FollowUpSummary())
		}
		if len(data.Changes) == 0 {
			return data.Detection.Title
		}
		changed := slices.Sorted(maps.Keys(data.Changes))
		return data.Detection.Title + " (" + strings.Join(changed, ", ") + ")"
	case transform.StreamAudit:
		return auditAction(data.Audit.Body)
	default:
		return join(": ", data.Skipped.Sink+data.Sink.Name+data.Ticket.TicketID+data.Ticket.Message,
			data.Gap.Explanation+data.Appliance.Reason+data.Skipped.Reason+data.Sink.Reason+data.Ticket.Reason+data.Rule.Description+data.Blindspot.Name)
	}
}

// auditAction describes the action in an entry's body. On some appliances the body is a
// string.
func auditAction(body json.RawMessage) string {
	var text string
	if json.Unmarshal(body, &text) == nil {
		return text
	}
	var action struct{ Operation, User, Details string }
	_ = json.Unmarshal(body, &action)
	return join(": ", join(" by ", action.Operation, action.User), action.Details)
}

// join joins the texts that are not empty.
func join(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), separator)
}

// Printable replaces line ends and control characters by spaces, because text from an
// appliance or a target is not trusted to control the terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
