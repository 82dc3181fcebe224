package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
)

// Control is what the API does to a bridge.
type Control interface {
	// Rewind moves the position of a stream back to a time.
	Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error
	// Verify compares what an appliance shows since a time with what was
	// journalled, stream by stream.
	Verify(ctx context.Context, appliance string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error)
}

// rewindRequest is the body of POST /api/v1/rewind.
type rewindRequest struct {
	Appliance string    `json:"appliance"`
	Stream    string    `json:"stream"`
	To        time.Time `json:"to"`
}

// verifyRequest is the body of POST /api/v1/verify.
type verifyRequest struct {
	Appliance string    `json:"appliance"`
	Since     time.Time `json:"since"`
}

// verifyLine is one line of the answer to POST /api/v1/verify: exactly one of
// its members is there.
type verifyLine struct {
	Progress     *verifyProgress      `json:"progress,omitempty"`
	Difference   *poller.Difference   `json:"difference,omitempty"`
	Verification *poller.Verification `json:"verification,omitempty"`
	Error        string               `json:"error,omitempty"`
	// Done ends a whole answer: one that ends without it was cut short.
	Done bool `json:"done,omitempty"`
}

type verifyProgress struct {
	Stream   string    `json:"stream"`
	Compared int       `json:"compared"`
	At       time.Time `json:"at"`
}

const maxRequest = 1 << 20

// readRequest reads the body into v, or answers with what is wrong with it.
func readRequest(w http.ResponseWriter, r *http.Request, v any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		writeProblem(w, http.StatusBadRequest, "the body is not the JSON that is due: "+err.Error())
		return false
	}
	return true
}

// control serves an operation once there is something to act on.
func (o Options) control(serve func(Control, http.ResponseWriter, *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := o.Control()
		if c == nil {
			writeProblem(w, http.StatusServiceUnavailable, "the state is being opened; try again")
			return
		}
		serve(c, w, r)
	})
}

func rewind(c Control, w http.ResponseWriter, r *http.Request) {
	var request rewindRequest
	if !readRequest(w, r, &request) {
		return
	}
	if request.To.IsZero() {
		writeProblem(w, http.StatusBadRequest, "to is missing: write a time such as 2026-01-31T08:00:00Z")
		return
	}
	source := checkpoint.Source{Appliance: request.Appliance, Stream: request.Stream}
	if err := c.Rewind(r.Context(), source, request.To); err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func verify(c Control, w http.ResponseWriter, r *http.Request) {
	var request verifyRequest
	if !readRequest(w, r, &request) {
		return
	}
	// The status is sent with the first line: what fails before it has one of
	// its own.
	controller, encoder, begun := http.NewResponseController(w), json.NewEncoder(w), false
	write := func(line verifyLine) {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
		}
		_ = encoder.Encode(line) // a client that went away misses it
		_ = controller.Flush()
	}
	verifications, err := c.Verify(r.Context(), request.Appliance, request.Since, poller.VerifyReport{
		Progress: func(stream string, compared int, at time.Time) {
			write(verifyLine{Progress: &verifyProgress{stream, compared, at}})
		},
		Found: func(d poller.Difference) { write(verifyLine{Difference: &d}) },
	})
	if err != nil && !begun {
		writeError(w, err)
		return
	}
	for _, v := range verifications {
		write(verifyLine{Verification: &v})
	}
	if err != nil {
		write(verifyLine{Error: err.Error()})
		return
	}
	write(verifyLine{Done: true})
}

// writeError answers with the status that an error of Control has.
func writeError(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrUnknown):
		status = http.StatusNotFound
	case errors.Is(err, poller.ErrNoPosition):
		status = http.StatusConflict
	}
	writeProblem(w, status, err.Error())
}

// ErrUnknown says that there is no appliance, stream or sink of a name. It comes
// wrapped, with the names that there are.
var ErrUnknown = errors.New("unknown")
