package match

import (
	"slices"

	"github.com/google/cel-go/cel"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// variables are the values of an expression's variables for one event. The event's data
// is read when the first of its variables is needed: attributes alone decide many
// events. It implements cel.Activation.
type variables struct {
	event *transform.Event
	data  object
	spent budget
}

func (v *variables) ResolveName(name string) (any, bool) {
	switch {
	case name == eventVariable:
		return v.event, true
	case name == budgetVariable:
		return &v.spent, true
	case !slices.Contains(dataVariables, name):
		return nil, false
	}
	if !v.data.indexed {
		v.read()
	}
	if value := v.data.find(name); value != nil {
		return value, true
	}
	return absent, true
}

func (v *variables) Parent() cel.Activation { return nil }

// read indexes the event's data, up to a malformed member.
func (v *variables) read() {
	data := v.event.Data()
	v.data = object{json: data[jsonscan.Space(data, 0):], indexed: true}
	if len(v.data.json) > 0 && v.data.json[0] == '{' {
		v.data.index(true)
	}
}
