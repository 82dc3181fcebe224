package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"ndrbridge/checkpoint"
)

// A page of dead letters has at most so many, 100 where the request does not say,
// and no more once their bodies are so large.
const (
	maxDead      = 1000
	maxDeadBytes = 1 << 20
)

// deadPage is a page of dead letters.
type deadPage struct {
	DeadLetters []deadLetter `json:"dead_letters"`
	// Next is where the next page goes on after; absent: there are no more.
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
		// One at a time: a dead letter may be as large as what an appliance answers.
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

// requeued is the answer to POST /api/v1/sinks/{sink}/requeue.
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

// dropped is the answer to a DELETE of dead letters.
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

// partly tells how many of many were done before an error.
func partly(n int, done string, err error) error {
	if n == 0 {
		return err
	}
	return fmt.Errorf("%d were %s, then: %w", n, done, err)
}

// deadOwner is whose dead letters a request is about. Where it does not say, it
// is answered with what to write.
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

// selection is which dead letters a request is about: those with the keys, or
// all.
type selection struct {
	Keys []string `json:"keys,omitzero"`
	All  bool     `json:"all,omitempty"`
}

// selected is the selection of keys as Control means them.
func selected(keys []string) selection { return selection{Keys: keys, All: keys == nil} }

// readSelection returns keys as Control means them. What selects nothing is
// refused: an empty body must not mean all.
func readSelection(w http.ResponseWriter, r *http.Request) (keys []string, ok bool) {
	var s selection
	if !readRequest(w, r, &s) {
		return nil, false
	}
	if s.All == (s.Keys != nil) {
		writeProblem(w, http.StatusBadRequest, `say which dead letters: write {"keys": ["KEY", …]}, or {"all": true}`)
		return nil, false
	}
	return s.Keys, true
}
