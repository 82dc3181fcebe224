// Package match filters the events of a sink by a CEL expression
// (https://cel.dev) over an event:
//
//	event.type.endsWith(".detection.created") && detection.risk_score >= 80
//
// The variables are event, with the attributes of the CloudEvent and its stream
// and action; detection, audit or record, the appliance's object; changes, of
// an updated detection; context, its devices; visibility, note or evidence, of a
// follow-up; and rule or blindspot, of an event of the bridge. Only the fields that the expression names are read from the
// event's bytes; one that is used as a list or an object is decoded completely.
//
// A missing field never matches: a comparison, a call or a negation of it is neither
// true nor false, so an event without risk_score matches neither
// detection.risk_score >= 80 nor !(detection.risk_score < 80). An expression with such
// a result does not match. && and || use their other operand if it decides the result
// (false && absent is false, true || absent is true), and has() reports whether a
// field is present in an object that is. A variable that an event does not have is
// absent, too: an expression about detection does not match an audit log entry, and
// neither do has(detection.title) and its negation.
//
// null is a value for ==, != and has(), and as the left operand of in; for anything
// else it is absent: an assignee of null does not start with "a", and that is not an
// error.
//
// Integers are compared with integers exactly, and with fractions as doubles. A text of a
// number is a number in a field that is documented as one.
//
// An expression that names a field which is not documented, or that uses a documented field
// as another type, is refused, because it is most probably a mistake. A field that only
// some appliances have is named by an index, detection["new_field"], whose type is not
// checked. A record may have any fields.
package match

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// Match is a compiled expression. It is safe for concurrent use.
type Match struct {
	expression string
	source     *ast.SourceInfo
	program    cel.Program
	context    bool // it uses the context of detections
}

// Compile compiles an expression and checks it against the types of the documented
// fields. The error gives, for each mistake, its position and a suggestion. An expression
// that could take too long to evaluate is an error, too.
func Compile(expression string) (*Match, error) {
	if err := checkTypes(expression); err != nil {
		return nil, err
	}
	return compile(expression)
}

// compile compiles an expression in which objects may have any fields.
func compile(expression string) (*Match, error) {
	env, err := newEnvironment()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, explain(expression, issues.Errors(), nil)
	}
	if err := checkOutput(checked); err != nil {
		return nil, err
	}
	if err := checkCost(env, checked); err != nil {
		return nil, err
	}
	selections := new(selections)
	optimizer, err := cel.NewStaticOptimizer(selections)
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	planned, issues := optimizer.Optimize(env, checked)
	switch {
	case selections.err != nil:
		return nil, selections.err
	case issues.Err() != nil:
		return nil, fmt.Errorf("plan the expression: %w", issues.Err())
	}
	program, err := env.Program(planned, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("plan the expression: %w", err)
	}
	return &Match{
		expression: expression, source: planned.NativeRep().SourceInfo(), program: program,
		context: uses(checked.NativeRep().Expr(), contextVariable),
	}, nil
}

// uses reports whether an expression uses a variable.
func uses(e ast.Expr, variable string) (found bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.IdentKind && e.AsIdent() == variable
	}))
	return found
}

// Matches reports whether an event matches. If the evaluation fails, because types do
// not fit or it takes too long for this event, it returns true and the error, so that
// no event is lost because of a faulty expression.
//
// An expression that uses the context of detections does not match a version of which another
// event follows with the context: it is decided about that.
func (m *Match) Matches(e transform.Event) (bool, error) {
	if m.context && string(jsonscan.At(e.Data(), "context.pending")) == "true" {
		return false, nil
	}
	value, _, err := m.program.Eval(&variables{event: &e})
	switch value := value.(type) {
	case types.Bool:
		return bool(value), nil
	case *types.Unknown:
		return false, nil
	case nil: // CEL failed
	default:
		if err == nil {
			err = fmt.Errorf("it returns a value of type %s, not true or false", value.Type())
		}
	}
	if err == nil {
		err = errors.New("it returns no value")
	}
	return true, fmt.Errorf("match event %s: %w", e.ID, m.located(err))
}

var errListHasNoFields = errors.New("a list has no fields: select an element, as in detection.participants.exists(p, p.role == \"offender\")")

// computed is the text at an index that is not a constant.
var computed = regexp.MustCompile(`^\[\s*[^"'\s0-9]`)

// located adds the position in the expression where an evaluation failed, if known.
func (m *Match) located(err error) error {
	failure, ok := errors.AsType[*types.Err](err)
	if !ok || failure.NodeID() == 0 {
		return err
	}
	lines, at := strings.Split(m.expression, "\n"), m.source.GetStartLocation(failure.NodeID())
	if _, rest := splitAt(lines, at); !computed.MatchString(rest) && strings.HasPrefix(failure.Error(), "unsupported index type 'string'") {
		err = errListHasNoFields
	}
	return fmt.Errorf("%s: %w", position(lines, at), err)
}
