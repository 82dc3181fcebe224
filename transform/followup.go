package transform

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// FollowUp is an event about a detection that is not a version of it: something that the bridge
// learned beside the stream, after a version that it has delivered.
type FollowUp struct {
	// Kind is the action of the event's type, such as hidden for detection.hidden.
	Kind string
	// Key distinguishes the event from others of the same kind about the same detection: with
	// the detection's id and Kind it makes the event's id. What is learned again has the same.
	Key string
	// Detection is the last known version.
	Detection Detection
	// At is when it was learned, by the appliance's clock if that is known.
	At time.Time
	// Name and Value are what was learned: a member of data beside the detection.
	Name  string
	Value any
	// Recorded is when the bridge received it.
	Recorded time.Time
}

// FollowUp returns the event of a follow-up. It has the source, subject and partition key of the
// detection's versions, so it stays behind the version that it follows.
func (c Encoder) FollowUp(f FollowUp) (Event, error) {
	subject := strconv.FormatInt(f.Detection.ID, 10)
	id := subject + "-" + f.Kind + "-" + f.Key
	value, err := json.Marshal(f.Value)
	if err != nil {
		return Event{}, fmt.Errorf("event %q: %s: %w", id, f.Name, err)
	}
	a := c.attributes(StreamDetections, "detection."+f.Kind, id, f.Recorded)
	a.Subject, a.PartitionKey, a.Time = subject, subject, f.At
	a.severity(f.Detection.severity)
	a.Repaired = f.Detection.repaired
	return encode(a, []byte(`{"detection":`), f.Detection.object, []byte(`,"`+f.Name+`":`), value, []byte(`}`))
}

// Remembered returns a detection as far as it is remembered: its id, the mod_time and create_time
// of the last version, 0 if unknown, and the Detection.Tracked of that version. The number of the
// participants, which that has in their place, is left out.
func Remembered(id, modTime, created int64, tracked []byte) Detection {
	values, _ := trackedValues(tracked)
	values[trackedIndex([]byte("participants"))] = nil
	object := appendFields(nil, values[:])
	for _, number := range []struct {
		name  string
		value int64
	}{{"id", id}, {"mod_time", modTime}, {"create_time", created}} {
		if number.value != 0 {
			object = strconv.AppendInt(appendName(object, number.name), number.value, 10)
		}
	}
	return Detection{
		ID: id, ModTime: modTime, Created: created, Began: created, Tracked: tracked, object: append(object, '}'),
		severity: severityOf(values[trackedIndex([]byte("risk_score"))], values[trackedIndex([]byte("categories"))]),
	}
}

// IsFollowUp reports whether the event is about a detection, but not one of its versions.
func (e Event) IsFollowUp() bool {
	if e.Stream() != StreamDetections {
		return false
	}
	action := e.Action()
	return action != "created" && action != "updated"
}
