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

// api serves what is under /api/v1.
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
		// An id, or to be posted to, the name of a ticket system.
		"/tickets/{id}":       {http.MethodGet: showCommand, http.MethodDelete: dropCommand, http.MethodPost: o.takeWebhook},
		"/tickets/{id}/retry": {http.MethodPost: retryCommand},

		// A key can hold anything, slashes too.
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

// operations are what a path does, by method.
type operations map[string]func(Control, http.ResponseWriter, *http.Request)

// serve serves operations once there is something to act on. Those that read take one
// of the slots, unless theirs is a stream.
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

// timeAdvice says what to write where a time is due.
const timeAdvice = "write a time such as 2026-01-31T08:00:00Z"

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 1 << 20

// readRequest reads the body into v, or answers with what is wrong with it.
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
		writeProblem(w, http.StatusBadRequest, "the body is not the JSON that is due: "+err.Error())
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
	_, _ = w.Write(body.Bytes()) // a client that went away misses it
}

// writeError answers with the status that an error of Control has.
func writeError(w http.ResponseWriter, err error) {
	writeProblem(w, statusOf(err, http.StatusInternalServerError), err.Error())
}

// statusOf is the status of an error of Control, or another where the error is
// none of those that it tells apart.
func statusOf(err error, other int) int {
	switch {
	case errors.Is(err, ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, ErrNotRunning), errors.Is(err, ErrBusy), errors.Is(err, ErrNotRejected), errors.Is(err, poller.ErrNoPosition),
		errors.Is(err, checkpoint.ErrDeadFull), errors.Is(err, checkpoint.ErrFenced):
		return http.StatusConflict
	case errors.Is(err, checkpoint.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return other
}
