package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
)

// api returns the handler of /api/v1.
func (o Options) api() http.Handler {
	mux, answers := http.NewServeMux(), make(chan struct{}, maxAnswers)
	for path, m := range map[string]operations{
		"/status":  {http.MethodGet: status},
		"/history": {http.MethodGet: history},
		"/events":  {http.MethodGet: tail()},
		"/backup":  {http.MethodPost: backup},
		"/reload":  {http.MethodPost: reload},
		"/rewind":  {http.MethodPost: rewind},
		"/verify":  {http.MethodPost: verify},

		"/sinks/{sink}/pause":   {http.MethodPost: pause},
		"/sinks/{sink}/resume":  {http.MethodPost: resume},
		"/sinks/{sink}/replay":  {http.MethodPost: replay},
		"/sinks/{sink}/requeue": {http.MethodPost: requeue},

		"/tickets": {http.MethodGet: listCommands, http.MethodPost: o.takeCommands},
		// The id of a command or, for POST, the name of a ticket system.
		"/tickets/{id}":       {http.MethodGet: showCommand, http.MethodDelete: dropCommand, http.MethodPost: o.takeWebhook},
		"/tickets/{id}/retry": {http.MethodPost: retryCommand},

		// A key can contain anything, including slashes.
		"/sinks/{sink}/dead":                    {http.MethodGet: listDead, http.MethodDelete: dropDead},
		"/sinks/{sink}/dead/{key...}":           {http.MethodGet: showDead},
		"/appliances/{appliance}/dead":          {http.MethodGet: listDead, http.MethodDelete: dropDead},
		"/appliances/{appliance}/dead/{key...}": {http.MethodGet: showDead},
	} {
		mux.Handle("/api/v1"+path, o.serve(m, answers))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, http.StatusNotFound, "there is nothing at "+r.URL.Path+"; try /, /healthz, /readyz, /metrics or /api/v1/status")
	})
	return mux
}

// operations are the handlers of a path, by method.
type operations map[string]func(Control, http.ResponseWriter, *http.Request)

// serve returns a handler for the operations of a path. It answers 503 until there
// is a Control. A GET, except of the event stream, occupies one of slots, and is
// answered 503 if none is free.
func (o Options) serve(m operations, slots chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation, ok := m[r.Method]
		if !ok {
			refuseMethod(w, r, slices.Sorted(maps.Keys(m)))
			return
		}
		c := o.Control()
		if c == nil {
			writeProblem(w, http.StatusServiceUnavailable, "the state is being opened; try again")
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		if r.Method == http.MethodGet && r.URL.Path != "/api/v1/events" {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			default:
				writeBusy(w, "too many answers are being read; try again")
				return
			}
		}
		operation(c, w, r)
	})
}

func refuseMethod(w http.ResponseWriter, r *http.Request, allowed []string) {
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, http.StatusMethodNotAllowed,
		fmt.Sprintf("%s does not take %s: use %s", r.URL.Path, r.Method, strings.Join(allowed, " or ")))
}

// timeAdvice ends errors about a missing or invalid time.
const timeAdvice = "write a time such as 2026-01-31T08:00:00Z"

// maxRequest is the maximum size of a request's body, in bytes.
const maxRequest = 1 << 20

// readRequest decodes the JSON body into v. If the body is invalid, it writes a
// problem and returns false.
func readRequest(w http.ResponseWriter, r *http.Request, v any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(v)
	if err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			return true
		}
		if err == nil {
			err = errors.New("something follows it")
		}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, errBodies):
		writeBusy(w, err.Error())
	case errors.As(err, &tooLarge):
		writeProblem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes: ask for less at once", tooLarge.Limit))
	case errors.Is(err, io.EOF):
		writeProblem(w, http.StatusBadRequest, "the body is missing: send JSON")
	default:
		writeProblem(w, http.StatusBadRequest, "the body is not the expected JSON: "+err.Error())
	}
	return false
}

func writeJSON(w http.ResponseWriter, v any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		writeProblem(w, http.StatusInternalServerError, "encode the answer: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body.Bytes()) // fails only if the client is gone
}

// writeError writes a problem for an error of Control.
func writeError(w http.ResponseWriter, err error) {
	writeProblem(w, statusOf(err, http.StatusInternalServerError), err.Error())
}

// statusOf returns the HTTP status for an error of Control, or fallback if the error
// is none of the known ones.
func statusOf(err error, fallback int) int {
	switch {
	case errors.Is(err, ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, ErrNotRunning), errors.Is(err, ErrBusy), errors.Is(err, ErrNotRejected), errors.Is(err, poller.ErrNoPosition),
		errors.Is(err, checkpoint.ErrDeadFull), errors.Is(err, checkpoint.ErrFenced):
		return http.StatusConflict
	case errors.Is(err, checkpoint.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return fallback
}

// problem is a problem document of the type about:blank (RFC 9457, section
// 4.2.1). The client returns it as an error.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Field names the invalid field of the request, and Allowed its allowed values.
	// Both are empty if unknown.
	Field   string   `json:"field,omitempty"`
	Allowed []string `json:"allowed,omitempty"`
}

func newProblem(status int, detail string) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

func (p *problem) Error() string { return p.Detail }

// Is makes a 404 match ErrUnknown.
func (p *problem) Is(target error) bool {
	return p.Status == http.StatusNotFound && target == ErrUnknown
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	newProblem(status, detail).write(w)
}

func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // fails only if the client is gone
}
