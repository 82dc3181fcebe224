package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// The limits of a page of dead letters: their number, which is 100 by default, and
// the size of their bodies in bytes, after which no more are added.
const (
	maxDead      = 1000
	maxDeadBytes = 1 << 20
)

// deadPage is a page of dead letters.
type deadPage struct {
	DeadLetters []deadLetter `json:"dead_letters"`
	// Next is the key after which the next page begins; absent: this page is the last.
	Next string `json:"next,omitempty"`
}

func listDead(c Control, w http.ResponseWriter, r *http.Request) {
	owner, ok := deadOwner(w, r)
	if !ok {
		return
	}
	query := r.URL.Query()
	limit, bodies := 100, false
	var err error
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxDead {
			writeProblem(w, http.StatusBadRequest, fmt.Sprintf("limit must be a number from 1 to %d", maxDead))
			return
		}
	}
	if text := query.Get("bodies"); text != "" {
		if bodies, err = strconv.ParseBool(text); err != nil {
			writeProblem(w, http.StatusBadRequest, "bodies must be true or false")
			return
		}
	}
	page := deadPage{DeadLetters: []deadLetter{}}
	for after, bytes := query.Get("after"), 0; ; {
		// One at a time: a dead letter may be as large as an appliance's response.
		deadLetters, err := c.Dead(r.Context(), owner, after, 1)
		if err != nil {
			writeError(w, err)
			return
		}
		if len(deadLetters) == 0 {
			break
		}
		if len(page.DeadLetters) == limit || bytes >= maxDeadBytes {
			page.Next = after
			break
		}
		page.DeadLetters = append(page.DeadLetters, newDeadLetter(deadLetters[0], bodies))
		after = deadLetters[0].Key
		if bodies {
			bytes += len(deadLetters[0].Body)
		}
	}
	writeJSON(w, page)
}

func showDead(c Control, w http.ResponseWriter, r *http.Request) {
	owner, ok := deadOwner(w, r)
	if !ok {
		return
	}
	deadLetter, err := c.DeadLetter(r.Context(), owner, r.PathValue("key"))
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, newDeadLetter(deadLetter, true))
}

// requeued is the response to POST /api/v1/sinks/{sink}/requeue.
type requeued struct {
	Requeued int `json:"requeued"`
}

func requeue(c Control, w http.ResponseWriter, r *http.Request) {
	keys, ok := readSelection(w, r)
	if !ok {
		return
	}
	n, err := c.Requeue(r.Context(), r.PathValue("sink"), keys)
	if err != nil {
		writeError(w, partly(n, "requeued", err))
		return
	}
	writeJSON(w, requeued{n})
}

// dropped is the response to a DELETE of dead letters.
type dropped struct {
	Dropped int `json:"dropped"`
}

func dropDead(c Control, w http.ResponseWriter, r *http.Request) {
	owner, ok := deadOwner(w, r)
	if !ok {
		return
	}
	keys, ok := readSelection(w, r)
	if !ok {
		return
	}
	n, err := c.DropDead(r.Context(), owner, keys)
	if err != nil {
		writeError(w, partly(n, "dropped", err))
		return
	}
	writeJSON(w, dropped{n})
}

// partly wraps err with the number of dead letters that were done before it occurred.
func partly(n int, done string, err error) error {
	if n == 0 {
		return err
	}
	return fmt.Errorf("%d were %s, then: %w", n, done, err)
}

// deadOwner returns the owner of the dead letters that a request names. If the stream
// is missing, it writes a problem and returns false.
func deadOwner(w http.ResponseWriter, r *http.Request) (checkpoint.Owner, bool) {
	if sink := r.PathValue("sink"); sink != "" {
		return checkpoint.SinkOwner(sink), true
	}
	stream := r.URL.Query().Get("stream")
	if stream == "" {
		writeProblem(w, http.StatusBadRequest, "stream is missing: write stream=detections, stream=audit, or stream=records/ and the name of the query")
		return "", false
	}
	return checkpoint.SourceOwner(checkpoint.Source{Appliance: r.PathValue("appliance"), Stream: stream}), true
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
func readSelection(w http.ResponseWriter, r *http.Request) (keys []string, ok bool) {
	var s selection
	if !readRequest(w, r, &s) {
		return nil, false
	}
	if s.All == (s.Keys != nil) {
		writeProblem(w, http.StatusBadRequest, `select dead letters: write {"keys": ["KEY", …]}, or {"all": true}`)
		return nil, false
	}
	return s.Keys, true
}

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
