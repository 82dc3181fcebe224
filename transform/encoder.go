package transform

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Encoder makes the events of one appliance.
type Encoder struct {
	TypePrefix string // of event types: io.ndrbridge
	Appliance  string // the appliance's name in the configuration
	// TraceParent is that of the events; no id depends on it.
	TraceParent string
}

// Sight is what the bridge knew of a detection when it saw a version of it.
type Sight struct {
	// Created says that the version is the detection's first, and that the
	// detection began after the stream's start.
	Created bool
	// Before is the Tracked of the version last seen; empty on first sight.
	Before []byte
	// Repeat counts the versions that came with one mod_time, from 1.
	Repeat int
	// CausedBy is Attributes.CausedBy.
	CausedBy string
	// Recorded is when the bridge saw the version.
	Recorded time.Time
	// Added is what the bridge adds to the detection.
	Added Enrichment
}

// Enrichment is what the bridge adds to a detection on request, each part beside
// it in data.
type Enrichment struct {
	Devices []byte // of the participants, a JSON array; nil: absent
	Format  string // the display name of the detection's format; empty: absent
	Link    string // to the detection in the appliance's own pages; empty: absent
	// Failed names what was asked for and could not be had, by comma.
	Failed string
}

// Detection makes the event of a detection's version. Its id follows from what
// the appliance shows alone, so that the same version always gets the same id.
func (c Encoder) Detection(d Detection, s Sight) (Event, error) {
	b := strconv.AppendInt(make([]byte, 0, 64), d.ID, 10)
	digits := len(b)
	b = strconv.AppendInt(append(b, '-'), d.ModTime, 10)
	if s.Repeat > 1 {
		b = strconv.AppendInt(append(b, '-'), int64(s.Repeat), 10)
	}
	id := string(b)
	subject := id[:digits]
	action := ".detection.updated"
	if s.Created {
		action = ".detection.created"
	}
	a := Attributes{
		ID:             id,
		Source:         "ndrbridge://" + c.Appliance + "/detections",
		Type:           c.TypePrefix + action,
		Subject:        subject,
		Time:           time.UnixMilli(d.ModTime),
		PartitionKey:   subject,
		Appliance:      c.Appliance,
		RecordedTime:   s.Recorded,
		SeverityNumber: d.severity.number,
		SeverityText:   d.severity.text,
		Repaired:       d.repaired,
		Unenriched:     s.Added.Failed,
		CausedBy:       s.CausedBy,
		TraceParent:    c.TraceParent,
	}
	const open, changes, end = `{"detection":`, `,"changes":`, `}`
	var rest []byte
	if !s.Created && len(s.Before) > 0 {
		rest = appendChanges(append(rest, changes...), s.Before, d.Tracked)
	}
	rest, err := s.Added.append(rest)
	if err != nil {
		return Event{}, fmt.Errorf("event %q: %w", id, err)
	}
	return encode(a, []byte(open), d.object, append(rest, end...))
}

// append appends the parts that there are as members of an object.
func (e Enrichment) append(dst []byte) (_ []byte, err error) {
	if e.Devices != nil {
		dst = append(append(dst, `,"devices":`...), e.Devices...)
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
