package transform

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// AuditPosition is an entry's position in an audit log.
type AuditPosition struct {
	ID int64 `json:"id"`
	// Time is when the entry was logged, in milliseconds since the epoch; 0 if unknown.
	Time int64 `json:"time"`
}

// The reasons of an AuditGap.
const (
	// GapPurged means that entries were purged before they were read.
	GapPurged = "purged"
	// GapRestarted means that the log was replaced by another one.
	GapRestarted = "restarted"
)

// AuditGap is a gap in the entries read from an audit log.
type AuditGap struct {
	Reason string        // GapPurged or GapRestarted
	Last   AuditPosition // the last entry read before the gap
	First  AuditPosition // the first entry seen after it
	// Missing is the maximum number of missing entries, computed from the ids, which
	// may have gaps of their own; 0 if unknown.
	Missing int64
}

// AuditGap returns the event that reports a gap. Its id is derived from the gap.
func (c Encoder) AuditGap(g AuditGap, recorded time.Time) (Event, error) {
	explanation := "Entries of the audit log were purged before the bridge had read them."
	if g.Reason == GapRestarted {
		explanation = "The audit log started over, for example after a restore from a backup: entries after the last one read may be missing."
	}
	data := struct {
		Reason      string        `json:"reason"`
		Explanation string        `json:"explanation"`
		Last        AuditPosition `json:"last"`
		First       AuditPosition `json:"first"`
		Missing     int64         `json:"missing,omitzero"`
	}{g.Reason, explanation, g.Last, g.First, g.Missing}
	id := fmt.Sprintf("audit.gap-%d-%d-%d-%d", g.Last.ID, g.Last.Time, g.First.ID, g.First.Time)
	return c.own("audit.gap", id, recorded, "gap", data)
}

// Reachability is a change in an appliance's reachability.
type Reachability struct {
	Reachable bool
	// Since is when the first of the failed polls was made.
	Since time.Time
	// Failures counts the failed polls of all streams since then.
	Failures int
	// Reason is the last failure, if the appliance is not reachable; it contains no secret.
	Reason string
	// For is how long the appliance was not reachable, if it is now.
	For time.Duration
}

// Reachability returns the event that reports that an appliance cannot be polled, or
// can be polled again.
func (c Encoder) Reachability(r Reachability, recorded time.Time) (Event, error) {
	kind := "appliance.unreachable"
	data := map[string]any{"since": formatTime(r.Since), "failures": r.Failures, "reason": r.Reason}
	if r.Reachable {
		kind = "appliance.reachable"
		data = map[string]any{
			"was_unreachable_since": formatTime(r.Since), "unreachable_seconds": int64(r.For.Round(time.Second).Seconds()), "failures": r.Failures,
		}
	}
	return c.own(kind, kind+"-"+strconv.FormatInt(recorded.UnixMilli(), 10), recorded, "appliance", data)
}

// Bridge is the Appliance of events that do not concern an appliance.
const Bridge = "bridge"

// Heartbeat returns the event that shows that the bridge is running. Its id is derived
// from now.
func (c Encoder) Heartbeat(version string, started, now time.Time) (Event, error) {
	data := struct {
		Version string    `json:"version"`
		Started time.Time `json:"started"`
	}{version, milliseconds(started)}
	return c.own("heartbeat", "heartbeat-"+strconv.FormatInt(now.UnixMilli(), 10), now, "heartbeat", data)
}

// Skipped is a range of the journal that is not delivered to a sink.
type Skipped struct {
	Sink        string `json:"sink"`
	First, Last uint64 `json:"-"` // numbers of events in the journal
	// Events is their number, including those that the sink's filter would not match.
	Events uint64 `json:"events"`
	Bytes  int64  `json:"bytes,omitzero"` // their size; 0 if unknown
	// Oldest and Newest are when the bridge received the first and the last of them;
	// zero if unknown.
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
	Reason string    `json:"reason"` // for a person
}

// SinkSkipped returns the event that reports a skipped range. Its id is derived from
// the range.
func (c Encoder) SinkSkipped(s Skipped, recorded time.Time) (Event, error) {
	id := fmt.Sprintf("sink.skipped-%s-%d-%d", s.Sink, s.First, s.Last)
	return c.own("sink.skipped", id, recorded, "skipped", s)
}

// TestTitle is the title of a test event.
const TestTitle = "Test event of ndrbridge, no action needed"

// SinkTest returns the event that tests a sink. Its id is derived from the sink and the time.
func (c Encoder) SinkTest(sink string, now time.Time) (Event, error) {
	data := map[string]any{"message": TestTitle, "sink": sink, "tags": []string{"test"}}
	return c.own("sink.test", fmt.Sprintf("sink.test-%s-%d", sink, now.UnixNano()), now, "test", data)
}

// IsTest reports whether the event is one of SinkTest.
func (e Event) IsTest() bool { return strings.HasSuffix(e.Type, ".sink.test") }

// SinkHalt is a halt of a sink, or its end.
type SinkHalt struct {
	Sink  string
	Since time.Time // when it halted
	// Over means that the sink delivers again or, with a Reason, will not.
	Over bool
	// Reason is why it is halted, or why it is over without a delivery; it contains no secret.
	Reason string
}

// SinkHalt returns the event that reports that a sink halted, or delivers again. Its subject
// is the sink, and its id is derived from the sink and Since.
func (c Encoder) SinkHalt(h SinkHalt, recorded time.Time) (Event, error) {
	kind := "sink.halted"
	data := map[string]any{"name": h.Sink, "since": formatTime(h.Since), "reason": h.Reason}
	if h.Over {
		kind = "sink.resumed"
		data = map[string]any{
			"name": h.Sink, "was_halted_since": formatTime(h.Since), "halted_seconds": int64(recorded.Sub(h.Since).Round(time.Second).Seconds()),
		}
		if h.Reason != "" {
			data["reason"] = h.Reason
		}
	}
	return c.ownOf(h.Sink, kind, fmt.Sprintf("%s-%s-%d", kind, h.Sink, h.Since.UnixMilli()), recorded, "sink", data)
}

// Ticket is a command to an appliance about a ticket, and its result.
type Ticket struct {
	Command     uint64  `json:"command"` // its id
	TicketID    string  `json:"ticket_id"`
	DetectionID int64   `json:"detection_id,omitzero"` // the detection to link; 0 if none
	Status      string  `json:"status,omitempty"`
	Resolution  string  `json:"resolution,omitempty"`
	Assignee    *string `json:"assignee,omitempty"` // nil if unchanged
	By          string  `json:"by,omitempty"`       // the person who asked for it, if known
	// Reason is why the command was rejected; empty if it was applied. It contains no
	// secret.
	Reason string `json:"reason,omitempty"`
}

// TicketResult returns the event that reports that an appliance accepted a command or, if t has a
// Reason, that it was given up. Its id is derived from the command and the time: a rejected command
// can be retried.
func (c Encoder) TicketResult(t Ticket, done time.Time) (Event, error) {
	return c.result("ticket", t.Command, t.Reason, done, t)
}

// RuleCommand is a command to an appliance about a tuning rule, and its result.
type RuleCommand struct {
	Command     uint64 `json:"command"`               // its id
	Action      string `json:"action"`                // hide, extend or end
	ID          int64  `json:"id,omitzero"`           // of the rule; 0 if none was made
	DetectionID int64  `json:"detection_id,omitzero"` // the detection to hide; 0 if none
	// Expiration is when the rule ends, in milliseconds since the epoch; 0 if that is not known.
	Expiration int64  `json:"expiration,omitzero"`
	By         string `json:"by"` // the person who asked for it
	// Reason is Ticket.Reason.
	Reason string `json:"reason,omitempty"`
}

// RuleResult returns the event that reports that an appliance has the rule of a command as requested
// or, if r has a Reason, that the command was given up. Its id is that of a TicketResult.
func (c Encoder) RuleResult(r RuleCommand, done time.Time) (Event, error) {
	return c.result("rule", r.Command, r.Reason, done, r)
}

// NoteCommand is a command to an appliance about the note of a detection, and its result.
type NoteCommand struct {
	Command     uint64 `json:"command"` // its id
	DetectionID int64  `json:"detection_id"`
	By          string `json:"by"` // the person who asked for it
	// Reason is Ticket.Reason.
	Reason string `json:"reason,omitempty"`
}

// NoteResult returns the event that reports that a note has the text of a command or, if n has a
// Reason, that the command was given up. Its id is that of a TicketResult.
func (c Encoder) NoteResult(n NoteCommand, done time.Time) (Event, error) {
	return c.result("note", n.Command, n.Reason, done, n)
}

// RefusedMessage is a broker's message that contains no valid command.
type RefusedMessage struct {
	// Message identifies the message, such as "stream NDR, message 17".
	Message string `json:"message"`
	Reason  string `json:"reason"` // for the sender
	// Sent is when the broker received it, in milliseconds. A producer may have set it to any
	// number; the event leaves out a time that RFC 3339 cannot express.
	Sent time.Time `json:"sent,omitzero"`
}

// MessageRefused returns the event that reports an invalid message: a ticket.rejected
// without a command. Its id is derived from the message's position and time.
func (c Encoder) MessageRefused(m RefusedMessage, recorded time.Time) (Event, error) {
	position := strings.NewReplacer(",", "", " ", "-").Replace(m.Message)
	id := fmt.Sprintf("ticket.rejected-%s-%d", position, m.Sent.UnixMilli())
	if m.Sent = milliseconds(m.Sent); m.Sent.Year() < 0 || m.Sent.Year() > 9999 {
		m.Sent = time.Time{}
	}
	return c.own("ticket.rejected", id, recorded, "ticket", m)
}

// result returns the event that reports that a command of a kind was applied or, because of a
// reason, rejected. data is its member of that name.
func (c Encoder) result(kind string, command uint64, reason string, done time.Time, data any) (Event, error) {
	action := kind + ".applied"
	if reason != "" {
		action = kind + ".rejected"
	}
	return c.own(action, fmt.Sprintf("%s-%d-%d", action, command, done.UnixMilli()), done, kind, data)
}

// ownSeverities are the severities of the bridge's own events; the others are low.
var ownSeverities = map[string]Severity{
	"appliance.unreachable": SeverityHigh, "audit.gap": SeverityHigh, "sink.halted": SeverityHigh, "sink.skipped": SeverityHigh,
	"blindspot.opened": SeverityHigh, "rule.created": SeverityMedium, "rule.updated": SeverityMedium, "rule.rejected": SeverityMedium, "note.rejected": SeverityMedium,
	"ticket.rejected": SeverityMedium, "ticket.conflict": SeverityMedium, "ticket.lost": SeverityMedium,
}

// ownSeverity returns the severity of one of the bridge's own events, by its type without the
// prefix.
func ownSeverity(kind string) Severity { return max(ownSeverities[kind], SeverityLow) }

// IsTrouble reports whether an event is about trouble of the bridge that people have to know
// of, or about its end.
func (e Event) IsTrouble() bool {
	switch strings.TrimPrefix(e.Type, TypePrefix) {
	case "appliance.unreachable", "appliance.reachable", "audit.gap", "sink.halted", "sink.resumed":
		return true
	}
	return false
}

// own returns one of the bridge's own events about the appliance, with data under one
// key.
func (c Encoder) own(kind, id string, at time.Time, key string, data any) (Event, error) {
	return c.ownOf(c.Appliance, kind, id, at, key, data)
}

func (c Encoder) ownOf(subject, kind, id string, at time.Time, key string, data any) (Event, error) {
	body, err := json.Marshal(map[string]any{key: data})
	if err != nil {
		return Event{}, fmt.Errorf("event %s: %w", id, err)
	}
	return c.ownData(subject, kind, id, at, body)
}

// ownData is ownOf for data in several parts.
func (c Encoder) ownData(subject, kind, id string, at time.Time, data ...[]byte) (Event, error) {
	a := c.attributes(StreamEvents, kind, id, at)
	a.Subject, a.PartitionKey, a.Time = subject, c.Appliance, at
	a.severity(ownSeverity(kind))
	return encode(a, data...)
}
