package admin

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// deadLetter is a dead letter as the API shows it.
type deadLetter struct {
	Key    string    `json:"key"`
	Class  string    `json:"class"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
	Bytes  int       `json:"bytes"` // of the body
	// EventID is the event's id; absent where the body is no event.
	EventID string `json:"event_id,omitempty"`
	// The body is there by request: as what it is where it is JSON, else as
	// base64.
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

// dead letter is what the bridge keeps.
func (l deadLetter) dead() checkpoint.DeadLetter {
	body := []byte(l.Body)
	if body == nil {
		body = l.BodyBase64
	}
	return checkpoint.DeadLetter{Key: l.Key, Class: l.Class, Reason: l.Reason, Time: l.Time, Body: body}
}
