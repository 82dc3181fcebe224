package card

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	var data struct{ Record storedRecord }
	unpack(e.Data(), &data)
	c.Title = line("Record: " + cmp.Or(strings.TrimPrefix(e.Subject, "~"), e.ID))
	c.Note = "Record stored at " + e.Appliance
	for _, f := range data.Record.facts() {
		c.fact(f.Name, f.Value)
	}
	c.fact("Time", clock(c))
}

// storedRecord is a record as the record store has it.
type storedRecord struct {
	Type   text                       `json:"_type"`
	Source map[string]json.RawMessage `json:"_source"`
}

// facts returns what is shown of a record; their values may be empty.
func (r storedRecord) facts() []Fact {
	field := func(name string) text { return fieldValue(r.Source[name]) }
	from := cmp.Or(field("clientAddr"), field("senderAddr"))
	to := cmp.Or(field("serverAddr"), field("receiverAddr"))
	facts := []Fact{{"From → to", joined(" → ", from, to)}}
	for _, f := range []Fact{{"Method", "method"}, {"Host", "host"}, {"URI", "uri"}, {"Query", "qname"}, {"Status code", "statusCode"}, {"Protocol", "proto"}} {
		facts = append(facts, Fact{f.Name, string(field(f.Value))})
	}
	return facts
}

// recordLine returns a record in one line.
func recordLine(record []byte) string {
	var r storedRecord
	unpack(record, &r)
	parts := []text{r.Type}
	for _, f := range r.facts() {
		parts = append(parts, text(f.Value))
	}
	return strings.TrimPrefix(joined(" ", parts...), "~")
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
	for name, object := range data {
		if name != "changes" {
			fields = object
		}
	}
	field := func(name string) string {
		var t text
		unpack(fields[name], &t)
		return string(t)
	}
	c.Note = "ndrbridge at " + e.Appliance
	facts := []Fact{{"Ticket", "ticket_id"}, {"Status", "status"}, {"Resolution", "resolution"}, {"Assignee", "assignee"}, {"By", "by"}, {"From", "from"}, {"To", "to"}, {"Reason", "reason"}, {"Error", "error"}}
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
	case "ticket.opened":
		c.Title = "Ticket " + field("ticket_id") + " was opened"
	case "ticket.updated":
		c.Title = "Ticket " + field("ticket_id") + " follows its detection"
	case "ticket.conflict":
		c.Title = "Ticket " + field("ticket_id") + " differs from its detection"
	case "ticket.lost":
		c.Title = "Ticket " + field("ticket_id") + " is lost"
	case "rule.applied", "rule.rejected":
		result := map[string]string{"rule.applied": " was carried out at ", "rule.rejected": " was not carried out at "}[kind]
		c.Title = "The command to " + field("action") + " by a tuning rule" + result + e.Appliance
		facts = []Fact{{"Rule", "id"}, {"Detection", "detection_id"}, {"By", "by"}, {"Reason", "reason"}}
		var until millis
		unpack(fields["expiration"], &until)
		c.fact("Until", until.clock())
	case "note.applied":
		c.Title = "A note was added to at " + e.Appliance
	case "note.rejected":
		c.Title = "A note was not added to at " + e.Appliance
	case "rule.created", "rule.updated", "rule.expired", "rule.removed":
		c.rule(kind, fields, data["changes"])
		facts = []Fact{{"Description", "description"}, {"Author", "author"}, {"By", "by"}}
	case "blindspot.opened", "blindspot.closed":
		c.Title = blindTitle(kind, field("kind"), field("name"), c.Appliance)
		facts = []Fact{{"Since", "since"}, {"Until", "until"}}
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
		value := field(f.Value)
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			value = millis(at.UnixMilli()).clock()
		}
		c.fact(f.Name, value)
	}
	c.fact("What to do", advice)
	c.fact("Time", clock(c))
}

// ruleVerbs say what happened to a tuning rule, by the type of the event.
var ruleVerbs = map[string]string{
	"rule.created": "was added", "rule.updated": "was changed", "rule.expired": "has expired", "rule.removed": "was removed",
}

// rule fills in the title and some facts of the card of a tuning rule.
func (c *Card) rule(kind string, fields, changes map[string]json.RawMessage) {
	var rule struct {
		ID         text            `json:"id"`
		Types      []text          `json:"detection_types"`
		Enabled    json.RawMessage `json:"enabled"`
		Expiration millis          `json:"expiration"`
	}
	object, _ := json.Marshal(fields)
	unpack(object, &rule)
	c.Title = "Tuning rule " + string(rule.ID) + " of " + c.Appliance + " " + ruleVerbs[kind]
	switch over := kind == "rule.expired" || kind == "rule.removed"; {
	case over:
		c.Title += ": it no longer hides detections"
	case string(rule.Enabled) == "false":
		c.Title += ": it is disabled"
	default:
		c.Title += ": it hides detections"
	}
	if fields == nil {
		c.Title = "All tuning rules of " + c.Appliance + " were removed"
	}
	c.fact("Changed", strings.ReplaceAll(list(slices.Sorted(maps.Keys(changes))), "_", " "))
	c.fact("Hides", list(rule.Types))
	for _, side := range []Fact{{"Offender", "offender"}, {"Victim", "victim"}} {
		var anyone text
		var one participant
		unpack(fields[side.Value], &anyone)
		unpack(fields[side.Value], &one)
		c.fact(side.Name, joined(" ", anyone, one.ObjectType, cmp.Or(one.Hostname, one.Value, one.ObjectID)))
	}
	c.fact("Until", rule.Expiration.clock())
}

// blindTitle returns the title of the card of a blind spot, by the type of the event and the kind of
// the blind spot.
func blindTitle(event, kind, name, appliance string) string {
	opened := event == "blindspot.opened"
	either := func(open, closed string) string {
		if opened {
			return open
		}
		return closed
	}
	switch kind {
	case transform.BlindInterval:
		return "Exclusion interval " + name + either(" begins at "+appliance+": alerts are suppressed", " is over at "+appliance+": alerts are no longer suppressed")
	case transform.BlindAlert:
		return "Alert " + name + either(" is disabled at "+appliance+": it notifies nobody", " is no longer disabled at "+appliance)
	case transform.BlindIngest:
		return "Record ingest is " + either("halted at "+appliance+": no records are stored", "no longer halted at "+appliance+": records are stored")
	case transform.BlindTracking:
		return "Ticket tracking is " + either("off at "+appliance+": neither tickets nor notes are written", "on again at "+appliance)
	}
	return "Blind spot " + strings.TrimPrefix(event, "blindspot.") + ": " + strings.ReplaceAll(kind, "_", " ") + " " + name
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
