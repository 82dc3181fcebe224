package match

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/parser"

	"ndrbridge/transform"
)

// Explainer explains for many events why an expression does not match. It is not safe for
// concurrent use.
type Explainer struct {
	root  ast.Expr
	info  *ast.SourceInfo
	parts map[string]part // by text
}

// part is a part of an expression, compiled by itself.
type part struct {
	match *Match
	err   error
}

// NewExplainer returns an Explainer of an expression that Compile accepts.
func NewExplainer(expression string) (*Explainer, error) {
	env, err := newEnvironment()
	if err == nil {
		env, err = env.Extend(cel.EnableMacroCallTracking())
	}
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return nil, explain(expression, issues.Errors(), nil)
	}
	of := parsed.NativeRep()
	return &Explainer{root: of.Expr(), info: of.SourceInfo(), parts: make(map[string]part)}, nil
}

// Why returns, for people, the parts of the expression that keep an event from matching,
// with the values of the fields in them; none if it matches.
func (x *Explainer) Why(e transform.Event) []string {
	w := why{Explainer: x, event: e}
	w.visit(x.root)
	return w.reasons
}

// compile compiles a part, once.
func (x *Explainer) compile(text string) (*Match, error) {
	p, found := x.parts[text]
	if !found {
		p.match, p.err = compile(text)
		x.parts[text] = p
	}
	return p.match, p.err
}

// why collects the parts of an expression that are not true for an event.
type why struct {
	*Explainer
	event   transform.Event
	reasons []string
}

// visit adds the parts of e that are not true.
func (w *why) visit(e ast.Expr) {
	value := w.evaluate(e)
	if value == types.True {
		return
	}
	if e.Kind() == ast.CallKind {
		switch call := e.AsCall(); call.FunctionName() {
		case operators.LogicalAnd, operators.LogicalOr:
			for _, arg := range call.Args() {
				w.visit(arg)
			}
			return
		}
	}
	var fields []string
	missing := false
	for _, name := range w.selected(e, nil) {
		field := w.field(name)
		missing = missing || types.IsUnknown(field)
		fields = append(fields, name+" is "+shown(field))
	}
	reason := w.text(e) + " is false"
	switch {
	case types.IsError(value):
		reason = fmt.Sprintf("%s fails: %v", w.text(e), value)
	case value != types.False && !missing:
		reason = w.text(e) + " has no result"
	case value != types.False:
		reason = w.text(e) + " has no result, because a field is missing"
	}
	if len(fields) > 0 {
		reason += ": " + strings.Join(fields, ", ")
	}
	w.reasons = append(w.reasons, reason)
}

// text returns the source of a part.
func (w *why) text(e ast.Expr) string {
	text, err := parser.Unparse(e, w.info)
	if err != nil {
		return "a part of the expression"
	}
	return text
}

func (w *why) evaluate(e ast.Expr) ref.Val { return w.evaluateText(w.text(e)) }

// evaluateText returns the value of an expression: unknown if a field is missing.
func (w *why) evaluateText(text string) ref.Val {
	m, err := w.compile(text)
	if err != nil {
		return types.WrapErr(err)
	}
	value, _, err := m.program.Eval(&variables{event: &w.event})
	if err != nil {
		return types.WrapErr(m.located(err))
	}
	return value
}

// field returns the value of a field, null included.
func (w *why) field(name string) ref.Val {
	value := w.evaluateText("dyn([" + name + "])") // in a list, null is a value
	if list, ok := value.(traits.Lister); ok {
		return list.Get(types.IntZero)
	}
	return value
}

// selected returns the fields of the event that an expression selects, such as
// detection.risk_score, without duplicates. locals are the variables of enclosing loops.
func (w *why) selected(e ast.Expr, locals []string) []string {
	var names []string
	add := func(more ...string) {
		for _, name := range more {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if w.isSelection(e, locals) {
		return []string{w.text(e)}
	}
	switch e.Kind() {
	case ast.SelectKind:
		add(w.selected(e.AsSelect().Operand(), locals)...)
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			add(w.selected(e.AsCall().Target(), locals)...)
		}
		for _, arg := range e.AsCall().Args() {
			add(w.selected(arg, locals)...)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			add(w.selected(element, locals)...)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		add(w.selected(c.IterRange(), locals)...)
		locals = append(slices.Clip(locals), c.IterVar(), c.IterVar2(), c.AccuVar())
		add(w.selected(c.LoopStep(), locals)...)
	}
	return names
}

// isSelection reports whether e selects a field of a variable of the event by names.
func (w *why) isSelection(e ast.Expr, locals []string) bool {
	operand := e
	for selected := false; ; selected = true {
		switch {
		case operand.Kind() == ast.IdentKind:
			name := operand.AsIdent()
			return selected && slices.Contains(variableNames(), name) && !slices.Contains(locals, name)
		case operand.Kind() == ast.SelectKind:
			if operand.AsSelect().IsTestOnly() {
				return false
			}
			operand = operand.AsSelect().Operand()
		case operand.Kind() == ast.CallKind && operand.AsCall().FunctionName() == operators.Index && operand.AsCall().Args()[1].Kind() == ast.LiteralKind:
			operand = operand.AsCall().Args()[0]
		default:
			return false
		}
	}
}

// shown returns a value for people.
func shown(value ref.Val) string {
	const most = 80 // characters
	text := []rune(written(value))
	if len(text) > most {
		text = append(text[:most-1], '…')
	}
	return string(text)
}

func written(value ref.Val) string {
	switch v := value.(type) {
	case types.String:
		return strconv.Quote(string(v))
	case types.Null:
		return "null"
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano)
	case *types.Unknown:
		return "missing"
	case *types.Err:
		return "not known"
	case traits.Lister:
		var elements []string
		for it := v.Iterator(); len(elements) < 10 && it.HasNext() == types.True; {
			elements = append(elements, written(it.Next()))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case traits.Mapper:
		return "an object"
	}
	return fmt.Sprint(value.Value())
}
