package transform

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	// Related is the member related of data; nil: it has none.
	Related any
	// Recorded is when the bridge received it.
	Recorded time.Time
}

// FollowUp returns the event of a follow-up. It has the source, subject and partition key of the
// detection's versions, so it stays behind the version that it follows.
func (c Encoder) FollowUp(f FollowUp) (Event, error) {
	subject := strconv.FormatInt(f.Detection.ID, 10)
	id := subject + "-" + f.Kind + "-" + f.Key
	value, err := marshal(f.Value)
	if err == nil && f.Related != nil {
		var related []byte
		related, err = marshal(f.Related)
		value = append(append(value, `,"related":`...), related...)
	}
	if err != nil {
		return Event{}, fmt.Errorf("event %q: %s: %w", id, f.Name, err)
	}
	a := c.attributes(StreamDetections, "detection."+f.Kind, id, f.Recorded)
	a.Subject, a.PartitionKey, a.Time = subject, subject, f.At
	a.severity(f.Detection.severity)
	a.Repaired = f.Detection.repaired
	return encode(a, []byte(`{"detection":`), f.Detection.object, []byte(`,"`+f.Name+`":`), value, []byte(`}`))
}

// marshal returns the JSON of a value. Unlike that of json.Marshal, it is not longer than the
// json.RawMessage in it.
func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSpace(b.Bytes()), err
}

// Remembered returns a detection as far as it is remembered: its id, the mod_time and create_time
// of the last version, 0 if unknown, and the Detection.Tracked of that version. The number of the
// participants, which that has in their place, is left out.
func Remembered(id, modTime, created int64, tracked []byte) Detection {
	values := parseTracked(tracked).values
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

// IsClosed reports whether a Detection.Tracked is that of a closed detection.
func IsClosed(tracked []byte) bool {
	return statusOf(tracked) == "closed"
}

// IsFollowUp reports whether the event is about a detection, but not one of its versions.
func (e Event) IsFollowUp() bool {
	if e.Stream() != StreamDetections {
		return false
	}
	action := e.Action()
	return action != "created" && action != "updated"
}

// MayOpen reports whether an event may open an incident or a ticket of its detection: a version, or
// the context that follows one. A match that uses the context may select that instead of the version.
func (e Event) MayOpen() bool {
	return e.Stream() == StreamDetections && (!e.IsFollowUp() || e.Action() == "context")
}

// maxSummary bounds a FollowUpSummary, in bytes.
const maxSummary = 1000

// FollowUpSummary returns what a follow-up says, for people, in a text of bounded length that may
// contain line breaks and control characters; "" for other events.
func (e Event) FollowUpSummary() string {
	if !e.IsFollowUp() {
		return ""
	}
	var data struct {
		Visibility struct{ Explanation string }
		Note       struct{ Text, Author string }
		Evidence   struct {
			Total   json.Number
			Records []json.RawMessage
		}
	}
	// A field of an unexpected type stays empty, and the others are still read.
	_ = json.Unmarshal(e.Data(), &data)
	var text string
	switch action := e.Action(); action {
	case "hidden", "gone":
		text = cmp.Or(data.Visibility.Explanation, "no longer shown")
	case "shown":
		text = cmp.Or(data.Visibility.Explanation, "shown again")
	case "noted":
		text = joined(": ", joined(" by ", "noted", data.Note.Author), data.Note.Text)
	case "context":
		text = joined(": ", "context", e.ContextSummary())
	case "evidence":
		shown, total := strconv.Itoa(len(data.Evidence.Records)), data.Evidence.Total.String()
		if total == shown {
			total = ""
		}
		text = "evidence: " + joined(" of ", shown, total) + " records"
		if cmp.Or(total, shown) == "1" {
			text = strings.TrimSuffix(text, "s")
		}
	default:
		text = action
	}
	return bounded(text)
}

func bounded(summary string) string {
	if len(summary) > maxSummary {
		return strings.ToValidUTF8(summary[:maxSummary], "") + "…"
	}
	return summary
}

// ContextSummary returns the devices in the context of an event, and why they matter, in a text like
// that of FollowUpSummary; "" if it has none.
func (e Event) ContextSummary() string {
	var data struct {
		Context struct{ Devices []contextDevice }
	}
	_ = json.Unmarshal(e.Data(), &data)
	var devices []string
	for _, d := range data.Context.Devices {
		devices = append(devices, d.String())
	}
	return bounded(strings.Join(devices, "; "))
}

// contextDevice is a device in a context.
type contextDevice struct {
	ID           json.Number
	Name, Ipaddr string
	Critical     bool
	OnWatchlist  bool `json:"on_watchlist"`
	Tags, Groups []string
}

// String returns the device's name, and in brackets why it matters.
func (d contextDevice) String() string {
	var marks []string
	if d.Critical {
		marks = append(marks, "critical")
	}
	if d.OnWatchlist {
		marks = append(marks, "on the watchlist")
	}
	name := cmp.Or(d.Name, d.Ipaddr, "device "+d.ID.String())
	if marks = slices.Concat(marks, d.Tags, d.Groups); len(marks) > 0 {
		name += " (" + strings.Join(marks, ", ") + ")"
	}
	return name
}

// joined joins the texts that are not empty.
func joined(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), separator)
}
