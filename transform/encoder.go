package transform

import (
	"strconv"
	"time"
)

// Encoder makes the events of one appliance.
type Encoder struct {
	TypePrefix string // of event types: io.ndrbridge
	Appliance  string // the appliance's name in the configuration
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
	// Recorded is when the bridge saw the version.
	Recorded time.Time
}

// Detection makes the event of a detection's version. Its id follows from what
// the appliance shows alone, so that the same version always gets the same id.
func (c Encoder) Detection(d Detection, s Sight) (Event, error) {
	subject := strconv.FormatInt(d.ID, 10)
	id := subject + "-" + strconv.FormatInt(d.ModTime, 10)
	if s.Repeat > 1 {
		id += "-" + strconv.Itoa(s.Repeat)
	}
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
	}
	const open, changes, end = `{"detection":`, `,"changes":`, `}`
	if s.Created || len(s.Before) == 0 {
		return encode(a, []byte(open), d.object, []byte(end))
	}
	return encode(a, []byte(open), d.object, []byte(changes), appendChanges(nil, s.Before, d.Tracked), []byte(end))
}
