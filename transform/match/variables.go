package match

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

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

// read indexes the event's data, and in the same pass the objects in it. It stops before
// a malformed member.
func (v *variables) read() {
	data := v.event.Data()
	data = data[jsonscan.Space(data, 0):]
	if v.data = (object{json: data, indexed: true}); len(data) == 0 || data[0] != '{' {
		return
	}
	i, more := jsonscan.First(data, 1, '}')
	for more {
		m := jsonscan.ReadName(data, i)
		var value ref.Val
		switch {
		case m.Value < 0 || m.Value == len(data):
			return
		case data[m.Value] == '{':
			below := &object{json: data[m.Value:], members: make([]jsonscan.Member, 0, 32)}
			if end := below.index(); end >= 0 {
				below.json = below.json[:end]
				m.End = m.Value + end
			}
			value = below
		default:
			m.End = jsonscan.Value(data, m.Value, jsonscan.MaxDepth)
		}
		if m.End < 0 {
			return
		}
		v.data.members, v.data.values = append(v.data.members, m), append(v.data.values, value)
		i, more = jsonscan.Next(data, m.End, '}')
	}
}
