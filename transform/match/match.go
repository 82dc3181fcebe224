// Package match decides which events a sink wants, by a CEL expression
// (https://cel.dev) over an event:
//
//	event.type.endsWith(".detection.created") && detection.risk_score >= 80
//
// The variables are event, with the attributes of the CloudEvent and its stream
// and action; detection, audit or record, the appliance's object; and changes, of
// an updated detection. Fields are read out of the event's bytes, and only those
// that the expression names; one that is used as a list or an object is decoded
// as a whole.
//
// What is absent decides nothing: a comparison, a call or a negation of it is
// neither true nor false, so that an event without risk_score passes neither
// detection.risk_score >= 80 nor !(detection.risk_score < 80). An expression that
// comes to nothing else does not match. && and || decide by their other side where
// that is enough (false && absent is false, true || absent is true), and has()
// reports whether a field is there, the objects around it given. A variable that
// an event does not have is absent likewise: what is said of detection does not
// match an entry of the audit log, has(detection.title) and its negation neither.
//
// null is a value to ==, != and has(), and to in on its left, and absent to
// everything else: an assignee of null does not start with "a", nor is that an
// error.
//
// Integers are compared exactly with integers, and with fractions as doubles.
package match

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"ndrbridge/transform"
)

// Match is a compiled expression. It is safe for concurrent use.
type Match struct {
	expression string
	source     *ast.SourceInfo
	program    cel.Program
	readings   sync.Pool // of *reading
}

// Compile compiles and type-checks an expression. The error says for each mistake
// where in the expression it is, and what may have been meant. An expression that
// could take too long over an event is a mistake too.
func Compile(expression string) (*Match, error) {
	env, err := newEnvironment()
	if err != nil {
		return nil, fmt.Errorf("setting up expressions: %w", err)
	}
	checked, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, explain(expression, issues.Errors())
	}
	if kind := checked.OutputType(); kind != cel.BoolType && kind != cel.DynType {
		return nil, fmt.Errorf("the expression gives a value of type %s, not true or false", kind)
	}
	plan, err := newPlan(checked.NativeRep())
	if err != nil {
		return nil, err
	}
	if err := checkCost(env, checked); err != nil {
		return nil, err
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(plan.decorate))
	if err != nil {
		return nil, fmt.Errorf("planning the expression: %w", err)
	}
	m := &Match{expression: expression, source: checked.NativeRep().SourceInfo(), program: program}
	m.readings.New = func() any { return newReading(plan) }
	return m, nil
}

// Matches reports whether an event is wanted. Where that cannot be told, since types
// do not fit or it would take too long over this event, it is true beside the error that says
// why: no event is lost to a mistake.
func (m *Match) Matches(e transform.Event) (bool, error) {
	r := m.readings.Get().(*reading)
	r.begin(e)
	value, _, err := m.program.Eval(r)
	r.end()
	m.readings.Put(r)
	switch value := value.(type) {
	case types.Bool:
		return bool(value), nil
	case *types.Unknown:
		return false, nil
	case nil: // CEL failed
	default:
		if err == nil {
			err = fmt.Errorf("it gives a value of type %s, not true or false", value.Type())
		}
	}
	if err == nil {
		err = errors.New("it gives nothing")
	}
	return true, fmt.Errorf("matching event %s: %w", e.ID, m.located(err))
}

// located adds where in the expression an evaluation failed, where that is known.
func (m *Match) located(err error) error {
	var failure *types.Err
	if !errors.As(err, &failure) || failure.NodeID() == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", place(strings.Split(m.expression, "\n"), m.source.GetStartLocation(failure.NodeID())), err)
}
