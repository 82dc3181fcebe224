package card

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"ndrbridge/transform"
)

// audit fills in the card of an audit log entry. The shape of its body is not
// documented: common fields are shown by name, anything else as is.
func (c *Card) audit(e transform.Event) {
	var data struct {
		Audit struct {
			Body json.RawMessage `json:"body"`
		} `json:"audit"`
	}
	unpack(e.Data(), &data)
	var body map[string]text
	unpack(data.Audit.Body, &body)
	operation := cmp.Or(body["operation"], "entry "+text(e.Subject))
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

// record fills in the card of a record.
func (c *Card) record(e transform.Event) {
	var data struct {
		Record struct {
			Source map[string]json.RawMessage `json:"_source"`
		} `json:"record"`
	}
	unpack(e.Data(), &data)
	field := func(name string) text { return fieldValue(data.Record.Source[name]) }
	c.Title = line("Record: " + cmp.Or(strings.TrimPrefix(e.Subject, "~"), e.ID))
	c.Note = "Record stored at " + e.Appliance
	from := cmp.Or(field("clientAddr"), field("senderAddr"))
	to := cmp.Or(field("serverAddr"), field("receiverAddr"))
	c.fact("From → to", joined(" → ", from, to))
	for _, f := range []Fact{{"Method", "method"}, {"Host", "host"}, {"URI", "uri"}, {"Query", "qname"}, {"Status code", "statusCode"}, {"Protocol", "proto"}} {
		c.fact(f.Name, string(field(f.Value)))
	}
	c.fact("Time", clock(c))
}

// fieldValue returns the value of a record's field: plain, or in an object with its
// type.
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

// own fills in the card of one of the bridge's own events.
func (c *Card) own(e transform.Event) {
	var data map[string]map[string]json.RawMessage
	unpack(e.Data(), &data)
	var fields map[string]json.RawMessage
	for _, only := range data {
		fields = only
	}
	field := func(name string) string {
		var t text
		unpack(fields[name], &t)
		return string(t)
	}
	c.Note = "ndrbridge at " + e.Appliance
	facts := []Fact{{"Ticket", "ticket_id"}, {"Status", "status"}, {"Resolution", "resolution"}, {"Assignee", "assignee"}, {"Reason", "reason"}, {"Error", "error"}}
	c.Level, _ = e.Severity()
	advice := ""
	switch kind := kindOf(e); kind {
	case "appliance.unreachable":
		c.Title = "Appliance " + e.Appliance + " cannot be polled"
		facts = []Fact{{"Reason", "reason"}, {"Since", "since"}}
		advice = "Check its network and API key with ndrbridge check --connect. Polls are retried, and nothing is lost while the appliance keeps it."
	case "appliance.reachable":
		c.Title = "Appliance " + e.Appliance + " can be polled again"
		facts = []Fact{{"Was unreachable since", "was_unreachable_since"}}
	case "audit.gap":
		c.Title = "Entries of the audit log of " + e.Appliance + " may be missing"
		facts = []Fact{{"Why", "explanation"}, {"Missing at most", "missing"}}
		advice = "Look for them in a backup or another copy of the log."
	case "sink.halted":
		c.Title = "Sink " + field("name") + " is halted"
		facts = []Fact{{"Reason", "reason"}, {"Since", "since"}}
		advice = "Fix the cause, which ndrbridge check --connect explains: delivery resumes by itself. Its lag policy decides how long its events are kept."
	case "sink.resumed":
		c.Title = "Sink " + field("name") + " delivers again"
		if field("reason") != "" {
			c.Title = "Sink " + field("name") + " is no longer halted"
		}
		facts = []Fact{{"Reason", "reason"}, {"Was halted since", "was_halted_since"}}
	case "sink.skipped":
		c.Title = "Sink " + field("sink") + " skipped " + field("events") + " events"
		facts = []Fact{{"Reason", "reason"}, {"From", "oldest"}, {"To", "newest"}}
	case "sink.test":
		c.Title = transform.TestTitle
		facts = []Fact{{"Sink", "sink"}}
	case "ticket.rejected":
		c.Title = "A ticket change was not written to " + e.Appliance
	case "ticket.applied":
		c.Title = "A ticket change was written to " + e.Appliance
	case "heartbeat":
		c.Title = "ndrbridge is running"
		facts = []Fact{{"Version", "version"}}
	default:
		c.Title = kind
		if !strings.HasPrefix(kind, "ticket.") {
			facts = nil
		}
	}
	c.Title = line(c.Title)
	for _, f := range facts {
		c.fact(f.Name, field(f.Value))
	}
	c.fact("What to do", advice)
	c.fact("Time", clock(c))
}

// kindOf returns the event type without its prefix: its last two parts, or "heartbeat".
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
