package appliance

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"ndrbridge/test/appliance/access"
	"ndrbridge/test/appliance/explorer"
	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/rest"
)

// handler serves an operation whose answer depends on the request's hazards.
type handler func(*request) rest.Answer

// request is a request to an operation.
type request struct {
	*rest.Request
	behaviour behaviour
}

// bind sets the handlers of all operations. It panics if an operation of the interface has
// none or a handler has no operation.
func (a *Appliance) bind() {
	a.handlers = map[string]handler{
		"GET /auditlog":        a.getAuditLog,
		"POST /records/search": a.searchRecords,
		"POST /records/cursor": a.nextRecords,
	}
	maps.Copy(a.handlers, a.detectionHandlers())
	for _, handlers := range []rest.Handlers{
		a.systemHandlers(),
		a.control.Handlers(),
		a.deviceHandlers(),
		a.alertHandlers(),
		a.topologyHandlers(),
		a.contentHandlers(),
		a.formatHandlers(),
	} {
		a.handle(handlers)
	}
	for _, o := range a.description.Operations {
		if a.handlers[o.Name] == nil {
			panic("no handler for " + o.Name)
		}
	}
	if len(a.handlers) != len(a.description.Operations) {
		panic(fmt.Sprintf("%d handlers for %d operations", len(a.handlers), len(a.description.Operations)))
	}
}

// handle adds handlers that do not know of hazards.
func (a *Appliance) handle(handlers rest.Handlers) {
	for name, serve := range handlers {
		if a.handlers[name] != nil {
			panic("two handlers for " + name)
		}
		a.handlers[name] = func(r *request) rest.Answer { return serve(r.Request) }
	}
}

// match is the result of routing a request.
type match struct {
	operation  *openapi.Operation
	parameters map[string]string
	serve      handler
	name       string      // under which the request is counted
	open       bool        // requires no credential
	token      bool        // is the token endpoint
	refused    rest.Answer // the response if no operation matches
}

// find routes a request.
func (a *Appliance) find(r *http.Request) match {
	if r.URL.Path == tokenPath && a.options.OAuth != nil {
		return match{name: http.MethodPost + " " + tokenPath, open: true, token: true}
	}
	path, ok := strings.CutPrefix(r.URL.Path, openapi.Root)
	if !ok {
		return match{name: "other", open: true, refused: rest.NotFound("no such page")}
	}
	if explorer.Serves(r.URL.Path) {
		return match{name: "GET /explore/", open: true, refused: a.explore(r)}
	}
	o, parameters, allowed := a.description.Find(r.Method, path)
	switch {
	case o == nil && allowed != nil && access.IsPreflight(r):
		return match{name: "other", open: true, refused: a.control.Preflight(r, allowed)}
	case o != nil:
		return match{operation: o, parameters: parameters, serve: a.handlers[o.Name], name: o.Method + " " + o.Path}
	case allowed == nil:
		return match{name: "other", refused: rest.NotFound("no such resource")}
	}
	refused := rest.Refuse(http.StatusMethodNotAllowed, "the method %s is not allowed", r.Method)
	refused.Header = http.Header{"Allow": {strings.Join(allowed, ", ")}}
	return match{name: "other", refused: refused}
}

// explore serves the explorer, which the cloud edition does not have.
func (a *Appliance) explore(r *http.Request) rest.Answer {
	if a.options.Edition == EditionCloud {
		return rest.NotFound("the cloud edition has no explorer")
	}
	return explorer.Answer(r, a.description.JSON, a.options.Product)
}
