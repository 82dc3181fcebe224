package match

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"

	"ndrbridge/transform"
)

// Explainer explains why an expression does not match events. It is safe for concurrent use.
type Explainer struct {
	parts []*Match // the operands of && at the top of the expression, in order
}

// NewExplainer returns an Explainer of an expression that Compile accepts.
func NewExplainer(expression string) (*Explainer, error) {
	env, _, err := extend([]cel.EnvOption{cel.EnableMacroCallTracking()})
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return nil, explain(expression, issues.Errors(), nil)
	}
	x := new(Explainer)
	return x, x.split(parsed.NativeRep().Expr(), parsed.NativeRep().SourceInfo())
}

// split appends the parts of e.
func (x *Explainer) split(e ast.Expr, info *ast.SourceInfo) error {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
		for _, operand := range e.AsCall().Args() {
			if err := x.split(operand, info); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := parser.Unparse(e, info)
	if err != nil {
		return fmt.Errorf("print a part of the expression: %w", err)
	}
	part, err := compile(text)
	x.parts = append(x.parts, part)
	return err
}

// Why returns, for people, the first part of the expression that is not true for an event; ""
// if all are.
func (x *Explainer) Why(e transform.Event) string {
	for _, part := range x.parts {
		if matches, err := part.Matches(e); err == nil && !matches {
			return "did not match: " + part.expression
		}
	}
	return ""
}
