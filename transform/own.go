package transform

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// AuditPlace is where an entry stands in an audit log.
type AuditPlace struct {
	ID int64 `json:"id"`
	// Time is when it was logged, in milliseconds since the epoch; 0: not known.
	Time int64 `json:"time"`
}

// The reasons of an AuditGap.
const (
	// GapPurged says that entries were purged before they were read.
	GapPurged = "purged"
	// GapRestarted says that the log began again: another log is in its place.
	GapRestarted = "restarted"
)

// AuditGap is a hole in what was read of an audit log.
type AuditGap struct {
	Reason string     // GapPurged or GapRestarted
	Last   AuditPlace // the last entry that was read before the hole
	First  AuditPlace // the first that was seen behind it
	// Missing is how many entries are missing at most, where the ids tell it:
	// ids may have holes. 0: not known.
	Missing int64
}

// AuditGap makes the event that tells of a gap. Its id follows from the gap.
func (c Encoder) AuditGap(g AuditGap, recorded time.Time) (Event, error) {
	explanation := "Entries of the audit log were purged before the bridge had read them."
	if g.Reason == GapRestarted {
		explanation = "The audit log began again, as after the appliance was restored from a backup: entries behind the last that was read may be missing."
	}
	data := struct {
		Reason      string     `json:"reason"`
		Explanation string     `json:"explanation"`
		Last        AuditPlace `json:"last"`
		First       AuditPlace `json:"first"`
		Missing     int64      `json:"missing,omitzero"`
	}{g.Reason, explanation, g.Last, g.First, g.Missing}
	id := fmt.Sprintf("audit.gap-%d-%d-%d-%d", g.Last.ID, g.Last.Time, g.First.ID, g.First.Time)
	return c.own("audit.gap", id, recorded, "gap", data)
}

// Reachability is a change in whether an appliance can be polled.
type Reachability struct {
	Reachable bool
	// Since is when the first of the failed polls was.
	Since time.Time
	// Failures counts the polls of one stream that failed in a row.
	Failures int
	// Reason is what failed last; never holds a secret.
	Reason string
}

// Reachability makes the event that tells that an appliance cannot be polled, or
// can be again.
func (c Encoder) Reachability(r Reachability, recorded time.Time) (Event, error) {
	kind, verb := "appliance.unreachable", "since"
	if r.Reachable {
		kind, verb = "appliance.reachable", "was_unreachable_since"
	}
	data := map[string]any{verb: formatTime(r.Since), "failures": r.Failures, "reason": r.Reason}
	return c.own(kind, kind+"-"+strconv.FormatInt(recorded.UnixMilli(), 10), recorded, "appliance", data)
}

// Bridge is what the bridge calls itself where an event is about no appliance.
const Bridge = "bridge"

// Heartbeat makes the event that tells that the bridge lives. Its id follows
// from when.
func (c Encoder) Heartbeat(version string, started, now time.Time) (Event, error) {
	data := struct {
		Version string    `json:"version"`
		Started time.Time `json:"started"`
	}{version, milliseconds(started)}
	return c.own("heartbeat", "heartbeat-"+strconv.FormatInt(now.UnixMilli(), 10), now, "heartbeat", data)
}

// Skipped is a stretch of the journal that a sink will not get.
type Skipped struct {
	Sink        string `json:"sink"`
	First, Last uint64 `json:"-"` // numbers of events in the journal
	// Events is how many they are, those that the sink would not have wanted
	// among them.
	Events uint64 `json:"events"`
	Bytes  int64  `json:"bytes,omitzero"` // of them; 0: not known
	// Oldest and Newest are when the bridge saw the first and the last of them;
	// zero: not known.
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
	Reason string    `json:"reason"` // for a person
}

// SinkSkipped makes the event that tells that a sink will not get events. Its id
// follows from the stretch.
func (c Encoder) SinkSkipped(s Skipped, recorded time.Time) (Event, error) {
	id := fmt.Sprintf("sink.skipped-%s-%d-%d", s.Sink, s.First, s.Last)
	return c.own("sink.skipped", id, recorded, "skipped", s)
}

// Ticket is a command to an appliance about a ticket, and what became of it.
type Ticket struct {
	Command     uint64  `json:"command"` // its id
	TicketID    string  `json:"ticket_id"`
	DetectionID int64   `json:"detection_id,omitzero"` // that it was to be linked with; 0: none
	Status      string  `json:"status,omitempty"`
	Resolution  string  `json:"resolution,omitempty"`
	Assignee    *string `json:"assignee,omitempty"` // nil: as it was
	// Reason is why it was rejected; empty where it was applied. Never holds a
	// secret.
	Reason string `json:"reason,omitempty"`
}

// TicketApplied makes the event that tells that an appliance took a command. Its id
// follows from the command and from when: one that was rejected can be tried again.
func (c Encoder) TicketApplied(t Ticket, done time.Time) (Event, error) {
	return c.ticket("ticket.applied", t, done)
}

// TicketRejected makes the event that tells that a command was given up.
func (c Encoder) TicketRejected(t Ticket, done time.Time) (Event, error) {
	return c.ticket("ticket.rejected", t, done)
}

// RefusedMessage is a message of a broker that holds no command that can be
// accepted.
type RefusedMessage struct {
	// Message is where it lies, such as "stream NDR, message 17".
	Message string `json:"message"`
	Reason  string `json:"reason"` // for whoever sent it
	// Sent is when the broker took it, in milliseconds.
	Sent time.Time `json:"sent"`
}

// MessageRefused makes the event that tells that a message brought no command: a
// ticket.rejected without a command. Its id follows from where the message lies and
// when it was sent.
func (c Encoder) MessageRefused(m RefusedMessage, recorded time.Time) (Event, error) {
	m.Sent = milliseconds(m.Sent)
	place := strings.NewReplacer(",", "", " ", "-").Replace(m.Message)
	return c.own("ticket.rejected", fmt.Sprintf("ticket.rejected-%s-%d", place, m.Sent.UnixMilli()), recorded, "ticket", m)
}

func (c Encoder) ticket(kind string, t Ticket, done time.Time) (Event, error) {
	return c.own(kind, fmt.Sprintf("%s-%d-%d", kind, t.Command, done.UnixMilli()), done, "ticket", t)
}

// own makes an event of the bridge's own about the appliance, with data under
// one key.
func (c Encoder) own(kind, id string, at time.Time, key string, data any) (Event, error) {
	body, err := json.Marshal(map[string]any{key: data})
	if err != nil {
		return Event{}, fmt.Errorf("event %s: %w", id, err)
	}
	return encode(Attributes{
		ID:           id,
		Source:       "ndrbridge://" + c.Appliance + "/" + StreamEvents,
		Type:         c.TypePrefix + "." + kind,
		Subject:      c.Appliance,
		Time:         at,
		PartitionKey: c.Appliance,
		Appliance:    c.Appliance,
		RecordedTime: at,
		TraceParent:  c.TraceParent,
	}, body)
}
