package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
)

// rewindRequest is the body of POST /api/v1/rewind.
type rewindRequest struct {
	Appliance string    `json:"appliance"`
	Stream    string    `json:"stream"`
	To        time.Time `json:"to"`
}

func rewind(c Control, w http.ResponseWriter, r *http.Request) {
	var request rewindRequest
	if !readRequest(w, r, &request) {
		return
	}
	if request.To.IsZero() {
		writeProblem(w, http.StatusBadRequest, "to is missing: "+timeAdvice)
		return
	}
	source := checkpoint.Source{Appliance: request.Appliance, Stream: request.Stream}
	if err := c.Rewind(r.Context(), source, request.To); err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// verifyRequest is the body of POST /api/v1/verify.
type verifyRequest struct {
	Appliance string    `json:"appliance"`
	Since     time.Time `json:"since"`
}

// verifyLine is one line of the response to POST /api/v1/verify. Exactly one of its
// members is set.
type verifyLine struct {
	Progress     *verifyProgress      `json:"progress,omitempty"`
	Difference   *poller.Difference   `json:"difference,omitempty"`
	Verification *poller.Verification `json:"verification,omitempty"`
	Error        string               `json:"error,omitempty"`
	// Done marks the end of a complete response; one without it was cut short.
	Done bool `json:"done,omitempty"`
}

type verifyProgress struct {
	Stream   string    `json:"stream"`
	Compared int       `json:"compared"`
	At       time.Time `json:"at"`
}

func verify(c Control, w http.ResponseWriter, r *http.Request) {
	var request verifyRequest
	if !readRequest(w, r, &request) {
		return
	}
	admissionOf(r).stream = true
	// The status is sent with the first line: an error before it gets a status of its
	// own.
	controller, encoder, begun := http.NewResponseController(w), json.NewEncoder(w), false
	write := func(line verifyLine) {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
		}
		_ = encoder.Encode(line) // fails only if the client is gone
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
