package appliance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const apiRoot = "/api/v1"

// route is an operation of the interface.
type route struct {
	method string
	path   string // below apiRoot; {id} matches a number
	serve  func(*request) answer
	body   string // the media type of the request's body; empty: no body
}

// table lists the operations.
func (a *Appliance) table() []route {
	return slices.Concat(
		[]route{
			{http.MethodPost, "/detections/search", a.searchDetections, typeJSON},
			{http.MethodGet, "/detections", a.randomDetections, ""},
			{http.MethodPatch, "/detections/tickets", a.patching(a.patchTickets), typeJSON},
			{http.MethodGet, "/detections/{id}", a.getDetection, ""},
			{http.MethodPatch, "/detections/{id}", a.patching(a.patchDetection), typeJSON},
			{http.MethodGet, "/detections/formats", a.getFormats, ""},
			{http.MethodGet, "/detections/{id}/notes", a.getNote, ""},
			{http.MethodPut, "/detections/{id}/notes", a.putNote, typeJSON},
			{http.MethodDelete, "/detections/{id}/notes", a.deleteNote, ""},
			{http.MethodGet, "/auditlog", a.getAuditLog, ""},
			{http.MethodPost, "/records/search", a.searchRecords, typeJSON},
			{http.MethodPost, "/records/cursor", a.nextRecords, typeJSON},
			{http.MethodPost, "/devices/search", a.searchDevices, typeJSON},
		},
		a.systemRoutes(),
	)
}

// request is a request to an operation.
type request struct {
	*http.Request
	behaviour behaviour
	id        int64 // of the path
}

// body returns the body, up to a maximum size.
func (r *request) body() ([]byte, error) {
	const maxBody = 4 << 20
	return io.ReadAll(io.LimitReader(r.Body, maxBody))
}

// object returns the body as a JSON object.
func (r *request) object() (*object, error) {
	b, err := r.body()
	if err != nil {
		return nil, err
	}
	return parseObject(b)
}

// match is the result of routing a request.
type match struct {
	route
	name    string // under which the request is counted
	id      int64
	open    bool   // requires no credential
	refused answer // the response if no operation matches
}

// find routes a request.
func (a *Appliance) find(r *http.Request) match {
	if r.URL.Path == tokenPath && a.options.OAuth != nil {
		return a.findToken(r)
	}
	path, ok := strings.CutPrefix(r.URL.Path, apiRoot)
	if !ok {
		return match{name: "other", open: true, refused: notFound("no such page")}
	}
	var allowed []string
	for _, candidate := range a.routes {
		id, ok := candidate.matches(path)
		if !ok {
			continue
		}
		if candidate.method == r.Method {
			return match{route: candidate, name: candidate.method + " " + candidate.path, id: id}
		}
		allowed = append(allowed, candidate.method)
	}
	if allowed == nil {
		return match{name: "other", refused: notFound("no such resource")}
	}
	refused := refusal(http.StatusMethodNotAllowed, "the method %s is not allowed", r.Method)
	refused.header = http.Header{"Allow": {strings.Join(allowed, ", ")}}
	return match{name: "other", refused: refused}
}

// matches returns the number in place of {id}; 0: there is none.
func (r route) matches(path string) (id int64, ok bool) {
	prefix, suffix, hasID := strings.Cut(r.path, "{id}")
	if !hasID {
		return 0, path == r.path
	}
	rest, begins := strings.CutPrefix(path, prefix)
	number, ends := strings.CutSuffix(rest, suffix)
	id, err := strconv.ParseInt(number, 10, 64)
	return id, begins && ends && err == nil
}

// object is the JSON object of a request's body. Decoding a field removes it; the
// remaining fields are unknown ones. Unlike a struct it distinguishes null from absent.
type object struct {
	fields map[string]json.RawMessage
	err    error // the first
}

func parseObject(b []byte) (*object, error) {
	o := new(object)
	if err := json.Unmarshal(b, &o.fields); err != nil || o.fields == nil {
		return nil, errors.New("the body is not a JSON object")
	}
	return o, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &o.fields) }

// take decodes a field, into a pointer if null is allowed, and reports whether the field
// is present and has the right type.
func (o *object) take(name string, into any) bool {
	raw, ok := o.fields[name]
	if !ok {
		return false
	}
	delete(o.fields, name)
	if err := json.Unmarshal(raw, into); err != nil {
		o.fail("%s: wrong type", name)
		return false
	}
	return true
}

// takeOptional is like take, but null counts as absent.
func (o *object) takeOptional(name string, into any) bool {
	if bytes.Equal(o.fields[name], []byte("null")) {
		delete(o.fields, name)
	}
	return o.take(name, into)
}

// takeTime decodes a time of a request received at the time now, in milliseconds.
func (o *object) takeTime(name string, now time.Time, into *int64) bool {
	var raw json.RawMessage
	if !o.takeOptional(name, &raw) {
		return false
	}
	at, err := parseTime(raw, now)
	if err != nil {
		o.fail("%s: %w", name, err)
		return false
	}
	*into = at
	return true
}

// fail makes the object invalid, unless it is already.
func (o *object) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf(format, args...)
	}
}

// end returns the first error: a field was invalid, or not taken. where precedes the name of
// the latter.
func (o *object) end(where string) error {
	if len(o.fields) > 0 {
		o.fail("unknown field %s%s", where, slices.Sorted(maps.Keys(o.fields))[0])
	}
	return o.err
}

// answer is the appliance's response to a request, before hazards apply to it.
type answer struct {
	status      int
	contentType string
	header      http.Header
	parts       [][]byte // of the body; shared, not to be modified
}

const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
	typeText    = "text/plain; charset=utf-8"
	typeHTML    = "text/html; charset=utf-8"
)

func (a answer) size() (n int) {
	for _, part := range a.parts {
		n += len(part)
	}
	return n
}

func noContent() answer { return answer{status: http.StatusNoContent} }

func jsonAnswer(status int, v any) answer {
	b, err := encode(v)
	if err != nil {
		panic(err) // callers pass only types that can be encoded
	}
	return answer{status: status, contentType: typeJSON, parts: [][]byte{b}}
}

// arrayAnswer returns an answer with an array of elements that are encoded already.
func arrayAnswer(elements [][]byte) answer {
	open, comma, end := []byte("["), []byte(","), []byte("]")
	parts := make([][]byte, 0, 2*len(elements)+2)
	parts = append(parts, open)
	for i, e := range elements {
		if i > 0 {
			parts = append(parts, comma)
		}
		parts = append(parts, e)
	}
	return answer{status: http.StatusOK, contentType: typeJSON, parts: append(parts, end)}
}

func textAnswer(status int, text string) answer {
	return answer{status: status, contentType: typeText, parts: [][]byte{[]byte(text)}}
}

// refusal returns an answer in the form of most errors.
func refusal(status int, format string, args ...any) answer {
	return jsonAnswer(status, map[string]string{"error_message": fmt.Sprintf(format, args...)})
}

// unprocessable returns an answer in the form of errors about the appliance's state.
func unprocessable(format string, args ...any) answer {
	return jsonAnswer(http.StatusUnprocessableEntity, map[string]string{"detail": fmt.Sprintf(format, args...)})
}

// notFound returns an answer in the form of errors about missing objects.
func notFound(format string, args ...any) answer {
	a := jsonAnswer(http.StatusNotFound, map[string]string{"type": "/api/v1/errors/404", "detail": fmt.Sprintf(format, args...)})
	a.contentType = typeProblem
	return a
}

func badRequest(err error) answer { return refusal(http.StatusBadRequest, "%v", err) }
