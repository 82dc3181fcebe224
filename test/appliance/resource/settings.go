package resource

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/rest"
)

// Settings is a single object that clients read and change. It is safe for concurrent use.
type Settings struct {
	path string
	// Refuse returns the answer to a request that is not possible now, and true; nil: every
	// request is. It must be set before the settings are used.
	Refuse func(*rest.Request) (rest.Answer, bool)
	// Show returns what clients see of a value, which it must not modify; nil: all of it. It
	// must be set before the settings are used.
	Show func(value Object) Object

	mu    sync.RWMutex
	value Object
}

// NewSettings returns settings at a path with an initial value.
func NewSettings(path string, value Object) *Settings { return &Settings{path: path, value: value} }

// Value returns the current value, which must not be modified.
func (s *Settings) Value() Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.value
}

// Handlers returns the handlers of those of the operations on settings that the interface
// describes: GET; PATCH, which replaces the fields that a request has; and PUT, which replaces
// all fields.
func (s *Settings) Handlers(d *openapi.Description) rest.Handlers {
	handlers := rest.Handlers{
		http.MethodGet + " " + s.path:   s.get,
		http.MethodPatch + " " + s.path: func(r *rest.Request) rest.Answer { return s.change(r, true) },
		http.MethodPut + " " + s.path:   func(r *rest.Request) rest.Answer { return s.change(r, false) },
	}
	maps.DeleteFunc(handlers, func(name string, _ rest.Handler) bool { return !d.Has(name) })
	return handlers
}

func (s *Settings) get(r *rest.Request) rest.Answer {
	if refused, ok := s.refuse(r); ok {
		return refused
	}
	value := s.Value()
	if s.Show != nil {
		value = s.Show(value)
	}
	return rest.JSON(http.StatusOK, value)
}

// change sets the fields of a request, and keeps the others or removes them.
func (s *Settings) change(r *rest.Request, keep bool) rest.Answer {
	if refused, ok := s.refuse(r); ok {
		return refused
	}
	value := make(Object)
	s.mu.Lock()
	if keep {
		maps.Copy(value, s.value)
	}
	maps.Copy(value, r.Object())
	s.value = value
	s.mu.Unlock()
	answer := rest.NoContent()
	answer.Audit = &rest.Audit{Operation: "Modify", Component: r.Operation.Tag, Details: r.Operation.Summary + ": " + brief(value)}
	return answer
}

func (s *Settings) refuse(r *rest.Request) (rest.Answer, bool) {
	if s.Refuse == nil {
		return rest.Answer{}, false
	}
	return s.Refuse(r)
}

// brief returns a value as text for the audit log.
func brief(value Object) string {
	const most = 200
	b, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was JSON
	}
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "") + "…"
	}
	return string(b)
}
