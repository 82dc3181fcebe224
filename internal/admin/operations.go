package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
)

func history(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	return c.History(r.Context())
}

func reload(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	done, err := c.Reload(r.Context())
	if err != nil {
		// Any unknown error is about the configuration.
		return nil, problemOf(err, http.StatusUnprocessableEntity)
	}
	if done.Changes == nil {
		done.Changes = []string{}
	}
	return done, nil
}

func pause(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	return noContent{}, c.Pause(r.Context(), r.PathValue("sink"))
}

func resume(c Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	return noContent{}, c.Resume(r.Context(), r.PathValue("sink"))
}

func replay(c Control, w http.ResponseWriter, r *http.Request) (any, error) {
	request, err := readRequest[Replay](w, r)
	if err != nil {
		return nil, err
	}
	if request.Since.IsZero() {
		return nil, newProblem(http.StatusBadRequest, "since is missing: "+timeAdvice)
	}
	if !request.Until.IsZero() && !request.Until.After(request.Since) {
		return nil, newProblem(http.StatusBadRequest, "until must be after since: no event was recorded between them")
	}
	n, err := c.Replay(r.Context(), r.PathValue("sink"), request)
	return map[string]uint64{"replayed": n}, err
}

// rewindRequest is the body of POST /api/v1/rewind.
type rewindRequest struct {
	Appliance string    `json:"appliance"`
	Stream    string    `json:"stream"`
	To        time.Time `json:"to"`
}

func rewind(c Control, w http.ResponseWriter, r *http.Request) (any, error) {
	request, err := readRequest[rewindRequest](w, r)
	if err != nil {
		return nil, err
	}
	if request.To.IsZero() {
		return nil, newProblem(http.StatusBadRequest, "to is missing: "+timeAdvice)
	}
	if now := time.Now(); request.To.After(now) {
		return nil, newProblem(http.StatusBadRequest, "to is in the future, because it is "+now.UTC().Format(time.RFC3339)+" now: nothing would be read again")
	}
	source := checkpoint.Source{Appliance: request.Appliance, Stream: request.Stream}
	return noContent{}, c.Rewind(r.Context(), source, request.To)
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

func verify(c Control, w http.ResponseWriter, r *http.Request) (any, error) {
	request, err := readRequest[verifyRequest](w, r)
	if err != nil {
		return nil, err
	}
	if request.Since.IsZero() {
		return nil, newProblem(http.StatusBadRequest, "since is missing: "+timeAdvice)
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
		return nil, err
	}
	for _, v := range verifications {
		write(verifyLine{Verification: &v})
	}
	if err != nil {
		write(verifyLine{Error: err.Error()})
	} else {
		write(verifyLine{Done: true})
	}
	return nil, nil
}

func backup(c Control, w http.ResponseWriter, r *http.Request) (any, error) {
	if !r.ProtoAtLeast(1, 1) {
		// A client of HTTP/1.0 cannot distinguish a truncated copy from a complete one.
		return nil, newProblem(http.StatusHTTPVersionNotSupported, "ask for a copy of the state with HTTP/1.1")
	}
	admissionOf(r).stream = true
	d := &download{w: w, end: time.Now().Add(maxBackup), name: "ndrbridge.db"}
	if named, ok := c.(interface{ BackupName() string }); ok { // it is not a state's file
		d.name = named.BackupName()
	}
	err := c.Backup(r.Context(), d)
	if err != nil && d.begun {
		panic(http.ErrAbortHandler) // the client must not take it for a complete copy
	}
	return nil, err
}

// maxBackup is the time that a client has to read a copy of the state. Until then the
// copy occupies disk space and a slot.
const maxBackup = time.Hour

// download sends the headers of a file with its first bytes, so that an error before
// them can be answered with a problem.
type download struct {
	w     http.ResponseWriter
	end   time.Time // the deadline; writes after it fail
	begun bool
	name  string // of the file
}

func (d *download) Write(b []byte) (int, error) {
	if time.Now().After(d.end) {
		return 0, fmt.Errorf("the copy was not read within %s", maxBackup)
	}
	if !d.begun {
		d.begun = true
		d.w.Header().Set("Content-Type", "application/octet-stream")
		d.w.Header().Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
	}
	return d.w.Write(b)
}
