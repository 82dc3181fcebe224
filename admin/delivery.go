package admin

import (
	"context"
	"net/http"
	"time"
)

// replayRequest is the body of POST /api/v1/sinks/{sink}/replay, and replayed
// the response.
type (
	replayRequest struct {
		Since time.Time `json:"since"`
	}
	replayed struct {
		Replayed uint64 `json:"replayed"`
	}
)

func replay(c Control, w http.ResponseWriter, r *http.Request) {
	var request replayRequest
	if !readRequest(w, r, &request) {
		return
	}
	if request.Since.IsZero() {
		writeProblem(w, http.StatusBadRequest, "since is missing: "+timeAdvice)
		return
	}
	n, err := c.Replay(r.Context(), r.PathValue("sink"), request.Since)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, replayed{n})
}

func pause(c Control, w http.ResponseWriter, r *http.Request) { switchSink(w, r, c.Pause) }

func resume(c Control, w http.ResponseWriter, r *http.Request) { switchSink(w, r, c.Resume) }

func switchSink(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, sink string) error) {
	if err := do(r.Context(), r.PathValue("sink")); err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
