package match

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/operators"
)

// checkTypes returns an error if an expression selects a field that is not documented, can
// only fail because of the types of documented fields, or compares one with a value that it
// cannot have. It accepts what is right for
// some event: a comparison with null, for any field can be null, and of an integer with a
// fraction. The program is not made from its result, so that the evaluation takes objects
// as they come.
func checkTypes(expression string) error {
	env, provider, err := newTypedEnvironment()
	if err != nil {
		return err
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return explain(expression, issues.Errors(), nil)
	}
	checked, issues := env.Check(parsed)
	if issues.Err() == nil {
		if err := checkOutput(checked); err != nil {
			return err
		}
		return checkValues(expression, parsed.NativeRep())
	}
	mistakes := slices.DeleteFunc(slices.Clone(issues.Errors()), func(m *common.Error) bool { return mayBeRight(m.Message) })
	if len(mistakes) == 0 {
		return checkValues(expression, parsed.NativeRep())
	}
	return explain(expression, mistakes, provider.missing)
}

func checkOutput(checked *cel.Ast) error {
	if kind := checked.OutputType(); kind != cel.BoolType && kind != cel.DynType {
		return fmt.Errorf("the expression returns a value of type %s, not true or false", kind)
	}
	return nil
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
