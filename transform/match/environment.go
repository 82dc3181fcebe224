package match

import (
	"slices"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ndrbridge/transform"
)

// eventVariable is the variable that holds the event's attributes. The other variables
// are members of data.
const (
	eventVariable   = "event"
	changesVariable = "changes"
)

var dataVariables = []string{"detection", "audit", "record", changesVariable}

// attribute is a field of the variable event.
type attribute struct {
	name string
	kind *types.Type
	read func(*transform.Event) ref.Val // nil if absent
}

var attributes = []attribute{
	{"id", types.StringType, func(e *transform.Event) ref.Val { return text(e.ID) }},
	{"source", types.StringType, func(e *transform.Event) ref.Val { return text(e.Source) }},
	{"type", types.StringType, func(e *transform.Event) ref.Val { return text(e.Type) }},
	{"subject", types.StringType, func(e *transform.Event) ref.Val { return text(e.Subject) }},
	{"time", types.TimestampType, func(e *transform.Event) ref.Val { return timestamp(e.Time) }},
	{"partitionkey", types.StringType, func(e *transform.Event) ref.Val { return text(e.PartitionKey) }},
	{"appliance", types.StringType, func(e *transform.Event) ref.Val { return text(e.Appliance) }},
	{"recordedtime", types.TimestampType, func(e *transform.Event) ref.Val { return timestamp(e.RecordedTime) }},
	{"severitynumber", types.IntType, func(e *transform.Event) ref.Val {
		if e.SeverityNumber == 0 {
			return nil
		}
		return types.Int(e.SeverityNumber)
	}},
	{"severitytext", types.StringType, func(e *transform.Event) ref.Val { return text(e.SeverityText) }},
	// Boolean attributes are never absent: an unset one is false.
	{"repaired", types.BoolType, func(e *transform.Event) ref.Val { return types.Bool(e.Repaired) }},
	{"redelivered", types.BoolType, func(e *transform.Event) ref.Val { return types.Bool(e.Redelivered) }},
	{"unenriched", types.StringType, func(e *transform.Event) ref.Val { return text(e.Unenriched) }},
	{"causedby", types.StringType, func(e *transform.Event) ref.Val { return text(e.CausedBy) }},
	{"stream", types.StringType, func(e *transform.Event) ref.Val { return text(e.Stream()) }},
	{"action", types.StringType, func(e *transform.Event) ref.Val { return text(e.Action()) }},
}

func text(s string) ref.Val {
	if s == "" {
		return nil
	}
	return types.String(s)
}

func timestamp(t time.Time) ref.Val {
	if t.IsZero() {
		return nil
	}
	return types.Timestamp{Time: t}
}

// attributeNamed returns an attribute's index in attributes, or -1.
func attributeNamed(name string) int {
	return slices.IndexFunc(attributes, func(a attribute) bool { return a.name == name })
}

func attributeNames() []string {
	names := make([]string, len(attributes))
	for i, a := range attributes {
		names[i] = a.name
	}
	return names
}

// maxNesting is the maximum nesting of loops.
const maxNesting = 3

func newEnvironment() (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		cel.CustomTypeProvider(eventType{registry}),
		cel.CustomTypeAdapter(registry),
		cel.CrossTypeNumericComparisons(true),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateTimestampLiterals(),
			cel.ValidateDurationLiterals(), cel.ValidateComprehensionNestingLimit(maxNesting)),
		cel.Variable(eventVariable, types.NewObjectType(eventTypeName)),
	}
	for _, name := range dataVariables {
		options = append(options, cel.Variable(name, types.NewMapType(types.StringType, types.DynType)))
	}
	return cel.NewEnv(append(options, operandFunctions()...)...)
}

// eventTypeName is the type checker's name for the type of event.
const eventTypeName = "Event"

// eventType adds the type of event to CEL's types.
type eventType struct{ *types.Registry }

func (t eventType) FindStructType(name string) (*types.Type, bool) {
	if name == eventTypeName {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return t.Registry.FindStructType(name)
}

func (t eventType) FindStructFieldNames(name string) ([]string, bool) {
	if name != eventTypeName {
		return t.Registry.FindStructFieldNames(name)
	}
	return attributeNames(), true
}

func (t eventType) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != eventTypeName {
		return t.Registry.FindStructFieldType(name, field)
	}
	i := attributeNamed(field)
	if i < 0 {
		return nil, false
	}
	read := attributes[i].read
	return &types.FieldType{
		Type:  attributes[i].kind,
		IsSet: func(event any) bool { return read(event.(*transform.Event)) != nil },
		GetFrom: func(event any) (any, error) {
			if value := read(event.(*transform.Event)); value != nil {
				return value, nil
			}
			return absent, nil
		},
	}, true
}

// variables are the values of an expression's variables for one event. The event's data
// is read when the first of its variables is needed: attributes alone decide many
// events, and a malformed member ends it. It implements cel.Activation.
type variables struct {
	event *transform.Event
	data  *object
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
	if v.data == nil {
		v.data = &object{json: v.event.Data(), isData: true}
	}
	if value := v.data.find(name); value != nil {
		return value, true
	}
	return absent, true
}

func (v *variables) Parent() cel.Activation { return nil }
