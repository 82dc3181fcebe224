package card

import (
	"encoding/json"
	"fmt"
	"strings"

	"ndrbridge/transform"
)

// audit makes the card of an entry of an audit log. Its body has no shape that is
// documented: what most have is shown by name, the rest as it is.
func (c *Card) audit(e transform.Event) {
	var data struct {
		Audit struct {
			Body json.RawMessage `json:"body"`
		} `json:"audit"`
	}
	unpack(e.Data(), &data)
	var body map[string]text
	unpack(data.Audit.Body, &body)
	operation := body["operation"]
	if operation == "" {
		operation = "entry " + text(e.Subject)
	}
	c.Title = "Audit log: " + joined(" by ", operation, body["user"])
	c.Note = fmt.Sprintf("Entry %s of the audit log of %s", e.Subject, e.Appliance)
	c.fact("Component", string(body["component"]))
	c.fact("Details", string(body["details"]))
	if body == nil {
		var words text
		unpack(data.Audit.Body, &words)
		c.fact("Body", string(words))
	}
	c.fact("Time", clock(c))
}

// record makes the card of a record.
func (c *Card) record(e transform.Event) {
	var data struct {
		Record struct {
			Source map[string]json.RawMessage `json:"_source"`
		} `json:"record"`
	}
	unpack(e.Data(), &data)
	field := func(name string) text { return fieldValue(data.Record.Source[name]) }
	kind := strings.TrimPrefix(e.Subject, "~")
	c.Title = line("Record: " + firstOf(text(kind), text(e.ID)))
	c.Note = "Record stored at " + e.Appliance
	from := firstOf(field("clientAddr"), field("senderAddr"))
	to := firstOf(field("serverAddr"), field("receiverAddr"))
	c.fact("From → to", joined(" → ", text(from), text(to)))
	for _, f := range []Fact{{"Method", "method"}, {"Host", "host"}, {"URI", "uri"}, {"Query", "qname"}, {"Status code", "statusCode"}, {"Protocol", "proto"}} {
		c.fact(f.Name, string(field(f.Value)))
	}
	c.fact("Time", clock(c))
}

// fieldValue is that of a field of a record: plain, or in an object with its type.
func fieldValue(field json.RawMessage) text {
	var wrapped struct {
		Value text `json:"value"`
	}
	if unpack(field, &wrapped); wrapped.Value != "" {
		return wrapped.Value
	}
	var plain text
	unpack(field, &plain)
	return plain
}

// own makes the card of what the bridge tells itself.
func (c *Card) own(e transform.Event) {
	var data map[string]map[string]json.RawMessage
	unpack(e.Data(), &data)
	var fields map[string]json.RawMessage
	for _, only := range data {
		fields = only
	}
	say := func(name string) string {
		var t text
		unpack(fields[name], &t)
		return string(t)
	}
	c.Note = "ndrbridge at " + e.Appliance
	switch kind := kindOf(e); kind {
	case "appliance.unreachable":
		c.Level, c.Title = High, "Appliance "+e.Appliance+" cannot be polled"
		c.fact("Reason", say("reason"))
		c.fact("Since", say("since"))
	case "appliance.reachable":
		c.Title = "Appliance " + e.Appliance + " can be polled again"
		c.fact("Was unreachable since", say("was_unreachable_since"))
	case "audit.gap":
		c.Level, c.Title = High, "Entries of the audit log of "+e.Appliance+" may be missing"
		c.fact("Why", say("explanation"))
		c.fact("Missing at most", say("missing"))
	case "sink.skipped":
		c.Level, c.Title = High, "Sink "+say("sink")+" skipped "+say("events")+" events"
		c.fact("Reason", say("reason"))
		c.fact("From", say("oldest"))
		c.fact("To", say("newest"))
	case "ticket.rejected":
		c.Level, c.Title = Medium, "A ticket was not written to "+e.Appliance
	case "ticket.applied":
		c.Title = "A ticket was written to " + e.Appliance
	case "heartbeat":
		c.Title = "ndrbridge lives"
		c.fact("Version", say("version"))
	default:
		c.Title = kind
	}
	c.Title = line(c.Title)
	if strings.Contains(kindOf(e), "ticket.") {
		for _, f := range []Fact{{"Ticket", "ticket_id"}, {"Status", "status"}, {"Resolution", "resolution"}, {"Assignee", "assignee"}, {"Reason", "reason"}, {"Error", "error"}} {
			c.fact(f.Name, say(f.Value))
		}
	}
	c.fact("Time", clock(c))
}

// kindOf is the type without its prefix: the last two parts, or one where the
// event is a heartbeat.
func kindOf(e transform.Event) string {
	if e.Action() == "heartbeat" {
		return "heartbeat"
	}
	parts := strings.Split(e.Type, ".")
	return strings.Join(parts[max(0, len(parts)-2):], ".")
}

func clock(c *Card) string {
	if c.Time.IsZero() {
		return ""
	}
	return millis(c.Time.UnixMilli()).clock()
}
