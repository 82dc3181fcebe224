package match

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ndrbridge/transform"
)

// eventVariable is the variable that holds the event's attributes. The other variables
// are members of data.
const (
	eventVariable   = "event"
	changesVariable = "changes"
	contextVariable = "context"
)

var dataVariables = []string{"detection", "audit", "record", changesVariable, contextVariable, "lifecycle", "visibility", "note", "evidence", "rule", "blindspot"}

// attributes are the fields of the variable event.
var attributes = []struct {
	documentedField
	read func(*transform.Event) ref.Val // nil if absent
}{
	{documentedField{"id", types.StringType}, func(e *transform.Event) ref.Val { return text(e.ID) }},
	{documentedField{"source", types.StringType}, func(e *transform.Event) ref.Val { return text(e.Source) }},
	{documentedField{"type", types.StringType}, func(e *transform.Event) ref.Val { return text(e.Type) }},
	{documentedField{"subject", types.StringType}, func(e *transform.Event) ref.Val { return text(e.Subject) }},
	{documentedField{"time", types.TimestampType}, func(e *transform.Event) ref.Val { return timestamp(e.Time) }},
	{documentedField{"partitionkey", types.StringType}, func(e *transform.Event) ref.Val { return text(e.PartitionKey) }},
	{documentedField{"appliance", types.StringType}, func(e *transform.Event) ref.Val { return text(e.Appliance) }},
	{documentedField{"recordedtime", types.TimestampType}, func(e *transform.Event) ref.Val { return timestamp(e.RecordedTime) }},
	{documentedField{"severitynumber", types.IntType}, func(e *transform.Event) ref.Val {
		if e.SeverityNumber == 0 {
			return nil
		}
		return types.Int(e.SeverityNumber)
	}},
	{documentedField{"severitytext", types.StringType}, func(e *transform.Event) ref.Val { return text(e.SeverityWord()) }},
	// Boolean attributes are never absent: an unset one is false.
	{documentedField{"repaired", types.BoolType}, func(e *transform.Event) ref.Val { return types.Bool(e.Repaired) }},
	{documentedField{"redelivered", types.BoolType}, func(e *transform.Event) ref.Val { return types.Bool(e.Redelivered) }},
	{documentedField{"unenriched", types.StringType}, func(e *transform.Event) ref.Val { return text(e.Unenriched) }},
	{documentedField{"causedby", types.StringType}, func(e *transform.Event) ref.Val { return text(e.CausedBy) }},
	{documentedField{"stream", types.StringType}, func(e *transform.Event) ref.Val { return text(e.Stream()) }},
	{documentedField{"action", types.StringType}, func(e *transform.Event) ref.Val { return text(e.Action()) }},
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

// maxNesting is the maximum nesting of loops.
const maxNesting = 3

// newEnvironment returns the environment in which expressions are evaluated: objects may have
// any fields.
func newEnvironment() (*cel.Env, error) {
	options := append(operandFunctions(), cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateTimestampLiterals(),
		cel.ValidateDurationLiterals(), cel.ValidateComprehensionNestingLimit(maxNesting)))
	for _, name := range dataVariables {
		options = append(options, cel.Variable(name, types.NewMapType(types.StringType, types.DynType)))
	}
	env, _, err := extend(options)
	return env, err
}

// newTypedEnvironment returns an environment in which the fields of objects have types.
// Expressions are only checked in it.
func newTypedEnvironment() (*cel.Env, *documentedTypes, error) {
	var options []cel.EnvOption
	var index, in, size []cel.FunctionOpt
	for _, name := range dataVariables {
		options = append(options, cel.Variable(name, dataTypes[name]))
	}
	for _, d := range []documented{detectionKind, participantKind, auditKind, recordKind, changesKind, contextKind, deviceKind, lifecycleKind, visibilityKind, noteKind, evidenceKind, ruleKind, blindSpotKind} {
		kind := types.NewObjectType(d.name)
		index = append(index, cel.Overload("index_"+d.name, []*cel.Type{kind, cel.StringType}, cel.DynType))
		in = append(in, cel.Overload("in_"+d.name, []*cel.Type{cel.StringType, kind}, cel.BoolType))
		size = append(size, cel.Overload("size_"+d.name, []*cel.Type{kind}, cel.IntType), cel.MemberOverload(d.name+"_size", []*cel.Type{kind}, cel.IntType))
	}
	return extend(append(options, cel.Function(operators.Index, index...), cel.Function(operators.In, in...), cel.Function(overloads.Size, size...)))
}

// extend returns an environment with the variable event and some options.
func extend(options []cel.EnvOption) (*cel.Env, *documentedTypes, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, nil, fmt.Errorf("set up CEL: %w", err)
	}
	provider := &documentedTypes{Registry: registry}
	env, err := cel.NewEnv(append(options,
		cel.CustomTypeProvider(provider),
		cel.CustomTypeAdapter(registry),
		cel.CrossTypeNumericComparisons(true),
		cel.Variable(eventVariable, types.NewObjectType(eventKind.name)),
	)...)
	if err != nil {
		return nil, nil, fmt.Errorf("set up CEL: %w", err)
	}
	return env, provider, nil
}

// documentedTypes adds the documented kinds of objects to CEL's types.
type documentedTypes struct {
	*types.Registry
	missing []missingField // in the order in which they were looked for
}

// missingField is a field that an expression selects from a kind of objects that does not
// have it.
type missingField struct {
	of   documented
	name string
}

func (t *documentedTypes) FindStructType(name string) (*types.Type, bool) {
	if _, found := kinds[name]; found {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return t.Registry.FindStructType(name)
}

func (t *documentedTypes) FindStructFieldNames(name string) ([]string, bool) {
	if d, found := kinds[name]; found {
		return d.names(), true
	}
	return t.Registry.FindStructFieldNames(name)
}

func (t *documentedTypes) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	d, found := kinds[name]
	if !found {
		return t.Registry.FindStructFieldType(name, field)
	}
	kind := d.find(field)
	switch {
	case kind == nil && d.open:
		return &types.FieldType{Type: types.DynType}, true
	case kind == nil:
		t.missing = append(t.missing, missingField{d, field})
		return nil, false
	case name != eventKind.name:
		return &types.FieldType{Type: kind}, true
	}
	read := attributes[slices.Index(d.names(), field)].read
	return &types.FieldType{
		Type:  kind,
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
