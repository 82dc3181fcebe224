package appliance

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	word := "/" + a.options.word()
	return slices.Concat(
		[]route{
			{http.MethodPost, "/detections/search", a.searchDetections, typeJSON},
			{http.MethodGet, "/detections", a.randomDetections, ""},
			{http.MethodPatch, "/detections/tickets", a.patching(a.patchTickets), typeJSON},
			{http.MethodGet, "/detections/{id}", a.getDetection, ""},
			{http.MethodPatch, "/detections/{id}", a.patching(a.patchDetection), typeJSON},
		},
		a.noteRoutes(),
		a.auditRoutes(),
		a.recordRoutes(),
		a.deviceRoutes(),
		a.formatRoutes(),
		a.systemRoutes(word),
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
func (r *request) object() (object, error) {
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
		return match{name: "other", open: true, refused: problem(http.StatusNotFound, "no such page")}
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
		return match{name: "other", refused: problem(http.StatusNotFound, "no such resource")}
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
