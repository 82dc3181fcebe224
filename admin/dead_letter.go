package admin

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// deadLetter is the JSON form of a dead letter.
type deadLetter struct {
	Key    string    `json:"key"`
	Class  string    `json:"class"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
	Bytes  int       `json:"bytes"` // of the body
	// EventID is the event's id; absent if the body is not an event.
	EventID string `json:"event_id,omitempty"`
	// The body is included on request: in Body if it is JSON, else in BodyBase64.
	Body       json.RawMessage `json:"body,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
}

func newDeadLetter(d checkpoint.DeadLetter, withBody bool) deadLetter {
	l := deadLetter{Key: d.Key, Class: d.Class, Reason: d.Reason, Time: d.Time, Bytes: len(d.Body)}
	if event, err := transform.Parse(d.Body); err == nil {
		l.EventID = event.ID
	}
	switch {
	case !withBody:
	case utf8.Valid(d.Body) && json.Valid(d.Body):
		l.Body = d.Body
	default:
		l.BodyBase64 = d.Body
	}
	return l
}

// stored returns the stored form of a dead letter with its body.
func (l deadLetter) stored() checkpoint.DeadLetter {
	body := []byte(l.Body)
	if body == nil {
		body = l.BodyBase64
	}
	return checkpoint.DeadLetter{Key: l.Key, Class: l.Class, Reason: l.Reason, Time: l.Time, Body: body}
}
