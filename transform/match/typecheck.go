package match

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// checkTypes returns an error if an expression selects a field that is not documented, or
// can only fail because of the types of documented fields. It accepts what is right for
// some event: a comparison with null, for any field can be null, and of an integer with a
// fraction. The program is not made from its result, so that the evaluation takes objects
// as they come.
func checkTypes(expression string) error {
	env, provider, err := newTypedEnvironment()
	if err != nil {
		return err
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

// retired are the values that attributes of events had in earlier versions: how a text that
// means one looks, and what the attribute is now.
var retired = map[string]struct {
	value *regexp.Regexp
	now   string
}{
	"severitytext": {regexp.MustCompile(`^(FATAL|ERROR|WARN|INFO)$`), "critical, high, medium, low or unknown"},
	"source":       {regexp.MustCompile(`/auditlog$`), "ndrbridge://NAME/audit for entries of the audit log"},
}

// checkRetired returns an error if an expression compares an attribute with a value that it had
// in an earlier version: it would never match.
func checkRetired(expression string, checked *ast.AST) (err error) {
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		operands := append([]ast.Expr{e.AsCall().Target()}, e.AsCall().Args()...)
		for _, attribute := range operands {
			of, found := retired[attribute.AsSelect().FieldName()]
			if !found || attribute.AsSelect().Operand().AsIdent() != eventVariable {
				continue
			}
			for _, operand := range operands {
				for _, constant := range append([]ast.Expr{operand}, operand.AsList().Elements()...) {
					if constant.Kind() != ast.LiteralKind {
						continue
					}
					if text, _ := constant.AsLiteral().Value().(string); of.value.MatchString(text) {
						at := position(strings.Split(expression, "\n"), checked.SourceInfo().GetStartLocation(constant.ID()))
						err = fmt.Errorf("%s: event.%s is %s", at, attribute.AsSelect().FieldName(), of.now)
					}
				}
			}
		}
	}))
	return err
}
