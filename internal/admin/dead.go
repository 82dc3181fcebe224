package admin

import (
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// maxDeadBytes is the size of the bodies on a page of dead letters, in bytes, after
// which no more are added.
const maxDeadBytes = 1 << 20

// OfDead names the owner of dead letters: a sink, or a stream of an appliance.
type OfDead struct {
	Sink      string `param:"sink" json:"-"`      // the sink's name
	Appliance string `param:"appliance" json:"-"` // the appliance's name
	// The stream, detections, audit, or records/ and the name of the query.
	Stream string `param:"stream" json:"-"`
}

// Owner returns the owner, or none if nothing is named.
func (r OfDead) Owner() checkpoint.Owner {
	switch {
	case r.Sink != "":
		return checkpoint.SinkOwner(r.Sink)
	case r.Appliance != "":
		return checkpoint.SourceOwner(checkpoint.Source{Appliance: r.Appliance, Stream: r.Stream})
	}
	return ""
}

func (r OfDead) check() error {
	if r.Sink == "" && r.Stream == "" {
		return newProblem(http.StatusBadRequest, "stream is missing: write stream=detections, stream=audit, or stream=records/ and the name of the query")
	}
	return nil
}

// GroupsRequest asks for the dead letters of an owner, or of all owners, grouped by their class
// and the kind of their reason.
type GroupsRequest struct{ OfDead }

func (r GroupsRequest) check() error {
	isSink, isSource := r.Sink != "", r.Appliance != "" && r.Stream != ""
	if isSink && r.Appliance+r.Stream != "" || !isSink && !isSource && r.Appliance+r.Stream != "" {
		return newProblem(http.StatusBadRequest, "select the dead letters of one sink (sink=NAME), of one stream (appliance=NAME and stream=NAME), or all of them (neither)")
	}
	return nil
}

// DeadRequest asks for at most Limit dead letters of an owner whose keys follow After, in the
// order of their keys. If After is empty, it begins with the first.
type DeadRequest struct {
	OfDead
	// The key after which the page begins, next of the page before. Empty or absent begins with the
	// first.
	After string `param:"after"`
	// The maximum number of items on the page.
	Limit int `param:"limit" default:"100" invalid:"limit must be a number from 1 to 1000"`
	// Whether the dead letters include their bodies.
	Bodies bool `param:"bodies" invalid:"bodies must be true or false"`
}

func (r DeadRequest) check() error {
	if err := r.OfDead.check(); err != nil {
		return err
	}
	return checkLimit(r.Limit)
}

// DeadPage is a page of dead letters.
type DeadPage struct {
	// The dead letters. With bodies, a page ends after about 1 MiB.
	DeadLetters []DeadLetter `json:"dead_letters"`
	// The key after which the next page begins; absent on the last page.
	Next string `json:"next,omitempty"`
}

// NewDeadPage returns the page that a request asks for. next returns the dead letter with the
// next key, if there is one: a dead letter may be as large as an appliance's response.
func NewDeadPage(r DeadRequest, next func(after string) ([]checkpoint.DeadLetter, error)) (DeadPage, error) {
	page := DeadPage{DeadLetters: []DeadLetter{}}
	for after, size := r.After, 0; ; {
		deadLetters, err := next(after)
		if err != nil || len(deadLetters) == 0 {
			return page, err
		}
		if len(page.DeadLetters) == r.Limit || size >= maxDeadBytes {
			page.Next = after
			return page, nil
		}
		page.DeadLetters = append(page.DeadLetters, NewDeadLetter(deadLetters[0], r.Bodies))
		after = deadLetters[0].Key
		if r.Bodies {
			size += len(deadLetters[0].Body)
		}
	}
}

// OfDeadLetter names a dead letter.
type OfDeadLetter struct {
	OfDead
	// The dead letter's key. Slashes in it are written as %2F.
	Key string `param:"key"`
}

// Selection selects dead letters of an owner by their keys, or all of them; Keys is nil then.
// Unknown keys are ignored.
type Selection struct {
	OfDead
	Keys []string `json:"keys,omitzero"` // the keys of dead letters
	All  bool     `json:"all,omitempty"` // all of them
}

// check refuses a selection that selects nothing: an empty body must not mean all.
func (r Selection) check() error {
	if err := r.OfDead.check(); err != nil {
		return err
	}
	if r.All == (r.Keys != nil) {
		return newProblem(http.StatusBadRequest, `select dead letters: write {"keys": ["KEY", …]}, or {"all": true}`)
	}
	return nil
}

// Requeued is the number of dead letters that were queued for redelivery.
type Requeued struct {
	N int `json:"requeued"` // the number of dead letters
}

func (r Requeued) count() int { return r.N }
func (Requeued) done() string { return "requeued" }

// Dropped is the number of dead letters that were deleted.
type Dropped struct {
	N int `json:"dropped"` // the number of dead letters
}

func (d Dropped) count() int { return d.N }
func (Dropped) done() string { return "dropped" }

// DeadLetter is an event that a sink rejected, or an object of an appliance that could not be made
// into an event.
type DeadLetter struct {
	// Its key among the dead letters of the same sink or stream.
	Key    string    `json:"key"`
	Class  string    `json:"class"`  // the class of the error
	Reason string    `json:"reason"` // why it was rejected
	Time   time.Time `json:"time"`   // when it was rejected
	Bytes  int       `json:"bytes"`  // the size of its body
	// The event's id; absent if the body is not an event.
	EventID string `json:"event_id,omitempty"`
	// The detection's title; absent if the body is no detection or has none.
	Title string `json:"title,omitempty"`
	// The appliance and the id of the detection, APPLIANCE/ID; absent if the body is not the event of
	// a detection.
	Detection string `json:"detection,omitempty"`
	// The kind of the reason. Dead letters are grouped by it.
	ReasonKind string          `json:"reason_kind"`
	Body       json.RawMessage `json:"body,omitempty"` // its body, if that is JSON and was asked for
	// Its body, if that is not JSON and was asked for.
	BodyBase64 []byte `json:"body_base64,omitempty"`
}

// NewDeadLetter returns the JSON form of a dead letter, with its body on request.
func NewDeadLetter(d checkpoint.DeadLetter, withBody bool) DeadLetter {
	l := DeadLetter{Key: d.Key, Class: d.Class, Reason: d.Reason, ReasonKind: ReasonKind(d.Reason), Time: d.Time, Bytes: len(d.Body)}
	// A detection as an appliance returns it, or the data of an event. A field of an
	// unexpected type stays empty.
	var detection struct {
		Title     string
		Detection struct{ Title string }
	}
	if event, err := transform.Parse(d.Body); err == nil {
		l.EventID = event.ID
		if event.Stream() == transform.StreamDetections && event.Subject != "" {
			l.Detection = event.Appliance + "/" + event.Subject
		}
		_ = json.Unmarshal(event.Data(), &detection)
		l.Title = detection.Detection.Title
	} else {
		_ = json.Unmarshal(d.Body, &detection)
		l.Title = detection.Title
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
