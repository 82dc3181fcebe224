package transform

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// TypePrefix begins the type of every event.
const TypePrefix = "io.ndrbridge."

// Types returns the types that events can have.
func Types() []string {
	return []string{
		TypePrefix + "detection.created", TypePrefix + "detection.updated", TypePrefix + "audit.logged", TypePrefix + "record.stored",
		TypePrefix + "detection.hidden", TypePrefix + "detection.gone", TypePrefix + "detection.shown",
		TypePrefix + "detection.noted", TypePrefix + "detection.context", TypePrefix + "detection.evidence",
		TypePrefix + "audit.gap", TypePrefix + "appliance.unreachable", TypePrefix + "appliance.reachable", TypePrefix + "heartbeat",
		TypePrefix + "sink.skipped", TypePrefix + "sink.halted", TypePrefix + "sink.resumed", TypePrefix + "sink.test",
		TypePrefix + "ticket.applied", TypePrefix + "ticket.rejected",
		TypePrefix + "ticket.opened", TypePrefix + "ticket.updated", TypePrefix + "ticket.conflict", TypePrefix + "ticket.lost",
		TypePrefix + "rule.created", TypePrefix + "rule.updated", TypePrefix + "rule.expired", TypePrefix + "rule.removed",
		TypePrefix + "rule.applied", TypePrefix + "rule.rejected", TypePrefix + "note.applied", TypePrefix + "note.rejected",
		TypePrefix + "blindspot.opened", TypePrefix + "blindspot.closed",
	}
}

// Encoder encodes the events of one appliance.
type Encoder struct {
	Appliance string // the appliance's name in the configuration
}

// Observation is the bridge's knowledge of a detection when it received a version of
// it.
type Observation struct {
	// Created means that the version is the detection's first, and that the detection
	// began after the stream's start.
	Created bool
	// Before is the Tracked of the last known version; empty if there is none.
	Before []byte
	// Repeat counts the versions with the same mod_time, from 1.
	Repeat int
	// CausedBy is Attributes.CausedBy.
	CausedBy string
	// Lifecycle has the version.
	Lifecycle Lifecycle
	// Recorded is when the bridge received the version.
	Recorded time.Time
	// Added is what the bridge adds to the detection.
	Added Enrichment
}

// Enrichment is data that the bridge adds to a detection if configured, as members of
// data beside it.
type Enrichment struct {
	Devices []byte // of the participants, a JSON array; nil if absent
	Format  string // the display name of the detection's format; empty if absent
	Link    string // to the detection's page at the appliance; empty if absent
	Context []byte // what is known of the participants' devices, a JSON object; nil if absent
	// Failed lists the parts that could not be fetched, separated by commas.
	Failed string
}

// attributes returns what the events of an appliance have in common. path is that of the
// source, and kind the type without its prefix.
func (c Encoder) attributes(path, kind, id string, recorded time.Time) Attributes {
	return Attributes{
		ID: id, Source: "ndrbridge://" + c.Appliance + "/" + path, Type: TypePrefix + kind,
		Appliance: c.Appliance, RecordedTime: recorded,
	}
}

// Detection returns the event of a detection's version. Its id depends only on the
// appliance's data, so the same version always has the same id.
func (c Encoder) Detection(d Detection, s Observation) (Event, error) {
	b := strconv.AppendInt(make([]byte, 0, 64), d.ID, 10)
	digits := len(b)
	b = strconv.AppendInt(append(b, '-'), d.ModTime, 10)
	if s.Repeat > 1 {
		b = strconv.AppendInt(append(b, '-'), int64(s.Repeat), 10)
	}
	id := string(b)
	subject := id[:digits]
	action := "detection.updated"
	if s.Created {
		action = "detection.created"
	}
	a := c.attributes("detections", action, id, s.Recorded)
	a.Subject, a.PartitionKey = subject, subject
	a.Time = time.UnixMilli(d.ModTime)
	a.severity(d.severity)
	a.Repaired, a.Unenriched, a.CausedBy = d.repaired, s.Added.Failed, s.CausedBy
	const open, changes, end = `{"detection":`, `,"changes":`, `}`
	var rest []byte
	if !s.Created && len(s.Before) > 0 {
		rest = appendChanges(append(rest, changes...), s.Before, d)
	}
	rest, err := s.Added.append(s.Lifecycle.append(rest))
	if err != nil {
		return Event{}, fmt.Errorf("event %q: %w", id, err)
	}
	return encode(a, []byte(open), d.object, append(rest, end...))
}

// append appends the parts that are present as members of an object.
func (e Enrichment) append(dst []byte) (_ []byte, err error) {
	if e.Devices != nil {
		dst = append(append(dst, `,"devices":`...), e.Devices...)
	}
	if e.Context != nil {
		dst = append(append(dst, `,"context":`...), e.Context...)
	}
	for _, part := range []struct{ open, text string }{{`,"format":`, e.Format}, {`,"link":`, e.Link}} {
		if part.text == "" {
			continue
		}
		if dst, err = jsontext.AppendQuote(append(dst, part.open...), part.text); err != nil {
			return nil, err
		}
	}
	return dst, nil
}
