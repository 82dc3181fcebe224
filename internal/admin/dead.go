package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// maxDeadBytes is the size of the bodies on a page of dead letters, in bytes, after
// which no more are added.
const maxDeadBytes = 1 << 20

// deadPage is a page of dead letters.
type deadPage struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	// Next is the key after which the next page begins; absent: this page is the last.
	Next string `json:"next,omitempty"`
}

func listDead(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	owner, err := deadOwner(r)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	limit, err := readLimit(query)
	if err != nil {
		return nil, err
	}
	bodies, err := strconv.ParseBool(cmp.Or(query.Get("bodies"), "false"))
	if err != nil {
		return nil, newProblem(http.StatusBadRequest, "bodies must be true or false")
	}
	page := deadPage{DeadLetters: []DeadLetter{}}
	for after, size := query.Get("after"), 0; ; {
		// One at a time: a dead letter may be as large as an appliance's response.
		deadLetters, err := c.Dead(r.Context(), owner, after, 1)
		if err != nil {
			return nil, err
		}
		if len(deadLetters) == 0 {
			return page, nil
		}
		if len(page.DeadLetters) == limit || size >= maxDeadBytes {
			page.Next = after
			return page, nil
		}
		page.DeadLetters = append(page.DeadLetters, NewDeadLetter(deadLetters[0], bodies))
		after = deadLetters[0].Key
		if bodies {
			size += len(deadLetters[0].Body)
		}
	}
}

func groupDead(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	query := r.URL.Query()
	sink, appliance, stream := query.Get("sink"), query.Get("appliance"), query.Get("stream")
	var owner checkpoint.Owner
	switch {
	case sink != "" && appliance+stream == "":
		owner = checkpoint.SinkOwner(sink)
	case sink == "" && appliance != "" && stream != "":
		owner = checkpoint.SourceOwner(checkpoint.Source{Appliance: appliance, Stream: stream})
	case sink+appliance+stream != "":
		return nil, newProblem(http.StatusBadRequest, "select the dead letters of one sink (sink=NAME), of one stream (appliance=NAME and stream=NAME), or all of them (neither)")
	}
	return c.DeadGroups(r.Context(), owner)
}

func showDead(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	owner, err := deadOwner(r)
	if err != nil {
		return nil, err
	}
	deadLetter, err := c.DeadLetter(r.Context(), owner, r.PathValue("key"))
	return NewDeadLetter(deadLetter, true), err
}

func requeue(c Control, w http.ResponseWriter, r *http.Request) (any, error) {
	keys, err := readSelection(w, r)
	if err != nil {
		return nil, err
	}
	n, err := c.Requeue(r.Context(), r.PathValue("sink"), keys)
	return map[string]int{"requeued": n}, partly(n, "requeued", err)
}

func dropDead(c Control, w http.ResponseWriter, r *http.Request) (any, error) {
	owner, err := deadOwner(r)
	if err != nil {
		return nil, err
	}
	keys, err := readSelection(w, r)
	if err != nil {
		return nil, err
	}
	n, err := c.DropDead(r.Context(), owner, keys)
	return map[string]int{"dropped": n}, partly(n, "dropped", err)
}

// partly wraps err, unless it is nil, with the number of dead letters that were done
// before it occurred.
func partly(n int, done string, err error) error {
	if n == 0 || err == nil {
		return err
	}
	return fmt.Errorf("%d were %s, then: %w", n, done, err)
}

// deadOwner returns the owner of the dead letters that a request names.
func deadOwner(r *http.Request) (checkpoint.Owner, error) {
	if sink := r.PathValue("sink"); sink != "" {
		return checkpoint.SinkOwner(sink), nil
	}
	stream := r.URL.Query().Get("stream")
	if stream == "" {
		return "", newProblem(http.StatusBadRequest, "stream is missing: write stream=detections, stream=audit, or stream=records/ and the name of the query")
	}
	return checkpoint.SourceOwner(checkpoint.Source{Appliance: r.PathValue("appliance"), Stream: stream}), nil
}

// selection selects dead letters by their keys, or all of them.
type selection struct {
	Keys []string `json:"keys,omitzero"`
	All  bool     `json:"all,omitempty"`
}

// selected returns the selection for keys as in Control: nil selects all.
func selected(keys []string) selection { return selection{Keys: keys, All: keys == nil} }

// readSelection reads a selection from the body and returns its keys as in Control:
// nil selects all. It refuses a body that selects nothing: an empty body must not
// mean all.
func readSelection(w http.ResponseWriter, r *http.Request) (keys []string, err error) {
	s, err := readRequest[selection](w, r)
	if err != nil {
		return nil, err
	}
	if s.All == (s.Keys != nil) {
		return nil, newProblem(http.StatusBadRequest, `select dead letters: write {"keys": ["KEY", …]}, or {"all": true}`)
	}
	return s.Keys, nil
}

// DeadLetter is the JSON form of a dead letter. It is stable: fields are added, and
// never change their meaning.
type DeadLetter struct {
	Key    string    `json:"key"`
	Class  string    `json:"class"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
	Bytes  int       `json:"bytes"` // of the body
	// EventID is the event's id; absent if the body is not an event.
	EventID string `json:"event_id,omitempty"`
	// Title is the title of the detection; absent if the body is no detection or has none.
	Title string `json:"title,omitempty"`
	// Detection is the appliance and the id of the detection, APPLIANCE/ID; absent if the
	// body is not the event of a detection.
	Detection string `json:"detection,omitempty"`
	// ReasonKind is the kind of the reason, by which DeadGroups groups.
	ReasonKind string `json:"reason_kind"`
	// The body is included on request: in Body if it is JSON, else in BodyBase64.
	Body       json.RawMessage `json:"body,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
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

// stored returns the stored form of a dead letter with its body.
func (l DeadLetter) stored() checkpoint.DeadLetter {
	body := []byte(l.Body)
	if body == nil {
		body = l.BodyBase64
	}
	return checkpoint.DeadLetter{Key: l.Key, Class: l.Class, Reason: l.Reason, Time: l.Time, Body: body}
}
