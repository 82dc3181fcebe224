package match

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// checkTypes returns an error if an expression selects a field that is not documented, or
// can only fail because of the types of documented fields. It accepts what is right for
// some event: a comparison with null, for any field can be null, and of an integer with a
// fraction. The program is not made from its result, so that the evaluation takes objects
// as they come.
func checkTypes(expression string) error {
	provider, err := newDocumentedTypes()
	if err != nil {
		return fmt.Errorf("set up CEL: %w", err)
	}
	env, err := newTypedEnvironment(provider)
	if err != nil {
		return fmt.Errorf("set up CEL: %w", err)
	}
	checked, issues := env.Compile(expression)
	if issues.Err() == nil {
		return checkOutput(checked)
	}
	mistakes := slices.DeleteFunc(slices.Clone(issues.Errors()), func(m *common.Error) bool { return mayBeRight(m.Message) })
	if len(mistakes) == 0 {
		return nil
	}
	return explain(expression, mistakes, provider.missing)
}

func checkOutput(checked *cel.Ast) error {
	if kind := checked.OutputType(); kind != cel.BoolType && kind != cel.DynType {
		return fmt.Errorf("the expression returns a value of type %s, not true or false", kind)
	}
	return nil
}

// newTypedEnvironment returns an environment in which the fields of objects have types.
// Expressions are only checked in it.
func newTypedEnvironment(provider *documentedTypes) (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.CustomTypeProvider(provider),
		cel.CustomTypeAdapter(provider.Registry),
		cel.CrossTypeNumericComparisons(true),
		cel.Variable(eventVariable, types.NewObjectType(eventTypeName)),
	}
	var index, in, size []cel.FunctionOpt
	for _, name := range dataVariables {
		options = append(options, cel.Variable(name, dataTypes[name]))
	}
	for _, d := range []documented{detectionKind, participantKind, auditKind, recordKind, changesKind} {
		kind := types.NewObjectType(d.name)
		index = append(index, cel.Overload("index_"+d.name, []*cel.Type{kind, cel.StringType}, cel.DynType))
		in = append(in, cel.Overload("in_"+d.name, []*cel.Type{cel.StringType, kind}, cel.BoolType))
		size = append(size, cel.Overload("size_"+d.name, []*cel.Type{kind}, cel.IntType), cel.MemberOverload(d.name+"_size", []*cel.Type{kind}, cel.IntType))
	}
	return cel.NewEnv(append(options, cel.Function(operators.Index, index...), cel.Function(operators.In, in...), cel.Function(overloads.Size, size...))...)
}

// documentedTypes adds the types of event and of the documented objects to CEL's types.
type documentedTypes struct {
	eventType
	missing []missingField // in the order in which they were looked for
}

// missingField is a field that an expression selects from a kind of objects that does not
// have it.
type missingField struct {
	of   documented
	name string
}

func newDocumentedTypes() (*documentedTypes, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	return &documentedTypes{eventType: eventType{registry}}, nil
}

func (t *documentedTypes) FindStructType(name string) (*types.Type, bool) {
	if _, found := kinds[name]; found {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return t.eventType.FindStructType(name)
}

func (t *documentedTypes) FindStructFieldNames(name string) ([]string, bool) {
	if d, found := kinds[name]; found {
		return d.names(), true
	}
	return t.eventType.FindStructFieldNames(name)
}

func (t *documentedTypes) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	d, found := kinds[name]
	if !found {
		kind, found := t.eventType.FindStructFieldType(name, field)
		if !found && name == eventTypeName {
			t.missing = append(t.missing, missingField{eventKind(), field})
		}
		return kind, found
	}
	kind := d.find(field)
	switch {
	case kind != nil:
	case d.open:
		kind = types.DynType
	default:
		t.missing = append(t.missing, missingField{d, field})
		return nil, false
	}
	return &types.FieldType{Type: kind}, true
}

var (
	noOverload = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	// mixed are operands that may be equal although their types differ: null and anything,
	// and different kinds of numbers.
	mixed = regexp.MustCompile(`^\((null, .*|.*, (list\()?null\)?|(int|uint|double), (list\()?(int|uint|double)\)?)\)$`)
)

// mayBeRight reports whether an error of the type checker is about an expression that is
// right for some event.
func mayBeRight(message string) bool {
	parts := noOverload.FindStringSubmatch(message)
	if parts == nil {
		return false
	}
	switch parts[1] {
	case operators.Equals, operators.NotEquals, operators.In:
		return mixed.MatchString(parts[2])
	case operators.Conditional: // its values may be of different types
		return strings.HasPrefix(parts[2], "(bool, ") || strings.HasPrefix(parts[2], "(dyn, ")
	}
	return false
}
