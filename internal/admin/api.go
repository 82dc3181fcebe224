package admin

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sync/semaphore"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
)

// version is the path of the API.
const version = "/api/v1"

// description is the description of the interface in OpenAPI 3.1, which test/openapi writes.
//
//go:embed openapi.json
var description []byte

// descriptionPath is where the description of the interface is served.
const descriptionPath = version + "/openapi.json"

// handler carries out a request. It returns the answer, which is sent as JSON, or nil if it has
// sent a response itself. An error is sent as a problem.
type handler func(c *Client, w http.ResponseWriter, r *http.Request) (answer any, err error)

// served is an operation with its handler.
type served struct {
	*route
	answer handler
	// verify, if it is not nil, reads the body of a request that may have come without the token, and
	// authorizes it, before it is forwarded to the owner of a cluster's log.
	verify func(w http.ResponseWriter, r *http.Request) (body []byte, err error)
}

// routes returns the operations of each path below version, by method.
func (o Options) routes() map[string]map[string]served {
	all := make(map[string]map[string]served)
	serve := func(s served) {
		for _, path := range s.paths {
			if all[path] == nil {
				all[path] = make(map[string]served)
			}
			all[path][s.method] = s
		}
	}
	add := func(at *route, answer handler) { serve(served{route: at, answer: answer}) }
	for _, field := range reflect.ValueOf(API).Fields() {
		operation := field.Interface().(interface {
			at() *route
			answer(c *Client, w http.ResponseWriter, r *http.Request) (any, error)
		})
		add(operation.at(), operation.answer)
	}
	add(API.GetStatus.route, o.status)
	add(API.TailEvents.route, tail(semaphore.NewWeighted(maxTails)))
	add(API.Backup.route, backup)
	add(API.Verify.route, verify)
	add(&route{method: http.MethodPost, paths: API.ListTicketCommands.paths, takes: request{body: true}}, o.takeTickets)
	add(&route{method: http.MethodPost, paths: []string{"/commands"}, takes: request{body: true}}, o.takeAll)
	// The id is the name of a ticket system.
	webhook := &route{method: http.MethodPost, paths: API.GetTicketCommand.paths, takes: request{body: true, any: true}}
	serve(served{webhook, o.takeWebhook, func(w http.ResponseWriter, r *http.Request) ([]byte, error) {
		_, body, err := o.verifyWebhook(w, r)
		return body, err
	}})
	return all
}

// status returns the status of the bridge, with that of its cluster.
func (o Options) status(c *Client, _ http.ResponseWriter, r *http.Request) (any, error) {
	status, err := c.Status(r.Context())
	if err != nil {
		return nil, err
	}
	status.ReadOnly = admissionOf(r).readOnly
	if c.isMember() {
		seen, err := API.GetCluster.Call(r.Context(), c, None{})
		if err != nil {
			return nil, err
		}
		status.Cluster = &seen
	}
	if o.Reload != nil {
		status.Reload = o.Reload()
	}
	return status, nil
}

// api returns the handler of the API.
func (o Options) api() http.Handler {
	mux, answers, forwarder := http.NewServeMux(), semaphore.NewWeighted(maxAnswers), o.newForwarder()
	for path, m := range o.routes() {
		mux.Handle(version+path, o.serve(path, m, answers, forwarder))
	}
	mux.Handle(descriptionPath, readOnly(func(w http.ResponseWriter, r *http.Request) {
		if refused := checkQuery(r.URL.RawQuery, nil); refused != nil {
			refused.write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(description) // fails only if the client is gone
	}))
	mux.HandleFunc("/api/{version}/", func(w http.ResponseWriter, r *http.Request) {
		if "/api/"+r.PathValue("version") == version {
			writeProblem(w, http.StatusNotFound, fmt.Sprintf("there is nothing at %s; try %s/status, or read %s, which lists what there is", r.URL.Path, version, descriptionPath))
			return
		}
		writeProblem(w, http.StatusNotFound, fmt.Sprintf("there is no version %.80q of the API: this bridge has %s", r.PathValue("version"), version))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, http.StatusNotFound, "there is nothing at "+r.URL.Path+"; try /, /healthz, /readyz, /metrics or /api/v1/status")
	})
	return mux
}

// serve returns a handler for the operations of a path. It forwards those that another
// member carries out, and answers 503 until Control returns a Client. A GET, except of the
// event stream, occupies one of answers, and is answered 503 if none is free.
func (o Options) serve(path string, m map[string]served, answers *semaphore.Weighted, forwarder *forwarder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		do, ok := m[r.Method]
		if !ok {
			refuseMethod(w, r, slices.Sorted(maps.Keys(m)))
			return
		}
		if forwarder.forward(w, r, do) {
			return
		}
		var refused *problem
		if !do.takes.any {
			refused = checkQuery(r.URL.RawQuery, do.queryOf(path))
		}
		if refused == nil && !do.takes.body && r.ContentLength != 0 {
			refused = refuseBody(r)
		}
		if refused != nil {
			refused.write(w)
			return
		}
		c := o.Control()
		if c == nil {
			writeProblem(w, http.StatusServiceUnavailable, "not ready: "+cmp.Or(strings.Join(o.NotReady(), "; "), "the state is being opened"))
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		if r.Method == http.MethodGet && r.URL.Path != version+"/events" {
			if !answers.TryAcquire(1) {
				busy("too many answers are being read; try again").write(w)
				return
			}
			defer answers.Release(1)
		}
		answer, err := do.answer(c, w, r)
		if err != nil {
			problemOf(err, http.StatusInternalServerError).write(w)
			return
		}
		switch answer := answer.(type) {
		case nil:
		case None:
			w.WriteHeader(http.StatusNoContent)
		case accepted:
			writeJSON(w, http.StatusAccepted, answer)
		default:
			writeJSON(w, http.StatusOK, answer)
		}
	})
}

func refuseMethod(w http.ResponseWriter, r *http.Request, allowed []string) {
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, http.StatusMethodNotAllowed,
		fmt.Sprintf("%s does not take %s: use %s", r.URL.Path, r.Method, strings.Join(allowed, " or ")))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		writeProblem(w, http.StatusInternalServerError, "encode the answer: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // fails only if the client is gone
}

// problem is a problem document of the type about:blank (RFC 9457, section
// 4.2.1). Operations and the client return it as an error.
type problem struct {
	Title   string   `json:"title"`             // the status as text
	Status  int      `json:"status"`            // the status of the answer
	Detail  string   `json:"detail"`            // what is wrong, and what to do
	Field   string   `json:"field,omitempty"`   // the field of the request that is invalid
	Allowed []string `json:"allowed,omitempty"` // the values that the field may have

	close      bool   // the connection is closed
	retryAfter string // seconds; empty: unknown
}

// newProblem returns a problem, which asks for a retry if its status is 503.
func newProblem(status int, detail string) *problem {
	p := &problem{Title: http.StatusText(status), Status: status, Detail: detail}
	if status == http.StatusServiceUnavailable {
		p.retryAfter = "5"
	}
	return p
}

// refusal returns a problem after which the connection is closed.
func refusal(status int, detail string) *problem {
	p := newProblem(status, detail)
	p.close = true
	return p
}

// busy returns the refusal of a request for which there is no capacity.
func busy(detail string) *problem {
	return refusal(http.StatusServiceUnavailable, detail)
}

// problemOf returns the problem for an error of an operation. Its status is fallback if
// the error is none of the known ones.
func problemOf(err error, fallback int) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		if text := err.Error(); text != p.Detail { // something was added to it
			wrapped := *p
			wrapped.Detail = text
			return &wrapped
		}
		return p
	}
	switch {
	case errors.Is(err, ErrUnknown):
		fallback = http.StatusNotFound
	case errors.Is(err, ErrNotRunning), errors.Is(err, ErrBusy), errors.Is(err, ErrNotRejected), errors.Is(err, poller.ErrNoPosition),
		errors.Is(err, checkpoint.ErrDeadFull), errors.Is(err, checkpoint.ErrFenced):
		fallback = http.StatusConflict
	case errors.Is(err, ErrUnavailable), errors.Is(err, checkpoint.ErrClosed), errors.Is(err, checkpoint.ErrNotOwner):
		fallback = http.StatusServiceUnavailable
	case errors.Is(err, checkpoint.ErrCommandsFull):
		fallback = http.StatusInsufficientStorage
	}
	return newProblem(fallback, err.Error())
}

func (p *problem) Error() string { return p.Detail }

// Is makes a 401 match ErrToken, a 404 match ErrUnknown, a 422 match ErrConfiguration, a 503 match
// ErrUnavailable, and a 507 match checkpoint.ErrCommandsFull.
func (p *problem) Is(target error) bool {
	return p.Status == http.StatusUnauthorized && target == ErrToken ||
		p.Status == http.StatusNotFound && target == ErrUnknown ||
		p.Status == http.StatusUnprocessableEntity && target == ErrConfiguration ||
		p.Status == http.StatusServiceUnavailable && target == ErrUnavailable ||
		p.Status == http.StatusInsufficientStorage && target == checkpoint.ErrCommandsFull
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	newProblem(status, detail).write(w)
}

func (p *problem) write(w http.ResponseWriter) {
	if p.close {
		w.Header().Set("Connection", "close")
	}
	if p.retryAfter != "" {
		w.Header().Set("Retry-After", p.retryAfter)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // fails only if the client is gone
}
