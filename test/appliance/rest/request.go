// Package rest contains the requests to the stand-in appliance's operations and the answers
// to them, as the handlers of its resources see them.
package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"ndrbridge/test/appliance/openapi"
)

// Handler serves an operation. The server has checked that the caller may use it and that
// the parameters and the body fit the description. It must be safe for concurrent use.
type Handler func(*Request) Answer

// Handlers are the handlers of some operations, by the operations' names.
type Handlers map[string]Handler

// Request is a request to an operation.
type Request struct {
	*http.Request
	Operation  *openapi.Operation
	Parameters map[string]string // of the path
	Data       []byte            // the body; not to be modified
	// Value is the body as decoded by jsonschema.UnmarshalJSON, with numbers as json.Number;
	// nil if it is not JSON. The handler owns it.
	Value  any
	Caller Caller
	Now    int64 // the appliance's time when the request arrived, in milliseconds
}

// Caller is the user on whose behalf a request is made.
type Caller struct {
	Name string
	// Roles is the level of each privilege that the user has.
	Roles map[string]string
	// KeyID is the id of the API key that the request was made with; 0: a token.
	KeyID int64
}

// ID returns a numeric parameter of the path.
func (r *Request) ID(name string) int64 {
	id, err := strconv.ParseInt(r.Parameters[name], 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: the parameter %s is not a number", r.Operation.Name, name)) // it would not have been routed here
	}
	return id
}

// Integer returns an integer of the query, and whether it is there.
func (r *Request) Integer(name string) (n int64, ok bool) {
	text := r.URL.Query().Get(name)
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64) // as 1e3, which is an integer in JSON as well
	return int64(f), err == nil
}

// Decode decodes the body into a struct.
func (r *Request) Decode(into any) error {
	if err := json.Unmarshal(r.Data, into); err != nil {
		return fmt.Errorf("decode the body: %w", err)
	}
	return nil
}

// Object returns the body, which is an object; nil if there is none.
func (r *Request) Object() map[string]any {
	object, _ := r.Value.(map[string]any)
	return object
}
