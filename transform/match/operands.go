package match

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// absent is the value of a missing field or attribute. CEL's unknown has the semantics
// that the package documents.
var absent = types.NewUnknown(0, nil)

// The functions that an expression's selections are passed through, so that a missing
// value is absent rather than an error. The names are not valid in an expression.
const (
	presentFunction  = "@present"  // null is absent, too
	nullableFunction = "@nullable" // null is a value
)

// The function that the operands of calls are passed through whose work is counted, and
// its first argument: see spend.
const (
	spendFunction  = "@spend"
	budgetVariable = "@budget"
)

func operandFunctions() []cel.EnvOption {
	anyType := cel.TypeParamType("T")
	function := func(name string, apply func(ref.Val) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.Overload(name, []*cel.Type{anyType}, anyType, cel.OverloadIsNonStrict(), cel.UnaryBinding(apply)))
	}
	return []cel.EnvOption{
		function(presentFunction, present), function(nullableFunction, nullable),
		cel.Variable(budgetVariable, cel.DynType),
		cel.Function(spendFunction, cel.Overload(spendFunction, []*cel.Type{cel.DynType, anyType, cel.IntType}, anyType,
			cel.OverloadIsNonStrict(), cel.FunctionBinding(spend))),
	}
}

func present(value ref.Val) ref.Val {
	if value == types.NullValue {
		return absent
	}
	return nullable(value)
}

func nullable(value ref.Val) ref.Val {
	if err, ok := value.(*types.Err); ok {
		// CEL has no error types for these.
		if reason := err.Error(); strings.HasPrefix(reason, "no such key: ") || strings.HasPrefix(reason, "index out of bounds: ") {
			return absent
		}
	}
	return value
}

var errEventIsNoValue = errors.New("event is not a value itself: name one of its attributes, such as event.type")

// selections passes the selections of an expression, the operands whose work is counted
// and the steps of loops through the functions above. It implements cel.ASTOptimizer.
type selections struct {
	ctx         *cel.OptimizerContext // creates nodes
	info        *ast.SourceInfo
	accumulator string // the name of every loop's accumulator
	err         error
}

func (s *selections) Optimize(ctx *cel.OptimizerContext, tree *ast.AST) *ast.AST {
	s.ctx, s.info = ctx, tree.SourceInfo()
	s.visit(tree.Expr(), false, nil)
	return ctx.NewAST(tree.Expr())
}

// visit wraps what is to be wrapped in a node. nullable means that null is a value in the
// node's context; locals are the variables of the enclosing loops.
func (s *selections) visit(e ast.Expr, nullable bool, locals []string) {
	switch e.Kind() {
	case ast.IdentKind, ast.SelectKind:
		s.visitSelection(e, locals)
		s.wrapSelection(e, nullable)
	case ast.CallKind:
		s.visitCall(e, nullable, locals)
	case ast.ListKind:
		s.visitEach(e.AsList().Elements(), locals)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			s.visitEach([]ast.Expr{entry.AsMapEntry().Key(), entry.AsMapEntry().Value()}, locals)
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			s.visit(field.AsStructField().Value(), true, locals)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		s.accumulator = c.AccuVar()
		s.visit(c.IterRange(), false, locals)
		s.visit(c.AccuInit(), true, locals)
		s.visitEach([]ast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()}, append(slices.Clip(locals), c.IterVar(), c.IterVar2(), c.AccuVar()))
		s.limit(c.LoopStep(), c.AccuVar())
	}
}

func (s *selections) visitEach(nodes []ast.Expr, locals []string) {
	for _, e := range nodes {
		s.visit(e, true, locals)
	}
}

func (s *selections) visitCall(e ast.Expr, nullable bool, locals []string) {
	call := e.AsCall()
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	weights := s.weigh(call, args, len(locals) > 0)
	switch call.FunctionName() {
	case operators.Index:
		s.visitSelection(e, locals)
		s.wrapSelection(e, nullable)
	case operators.Equals, operators.NotEquals:
		s.visitEach(args, locals)
	case operators.In:
		s.visit(args[0], true, locals)
		s.visit(args[1], false, locals)
	case operators.Conditional:
		s.visit(args[0], false, locals)
		s.visitEach(args[1:], locals)
		if !nullable {
			e.SetKindCase(s.ctx.NewCall(presentFunction, s.moved(e)))
		}
	default:
		for _, arg := range args {
			s.visit(arg, false, locals)
		}
	}
	for i, w := range weights {
		if w != weightless {
			args[i].SetKindCase(s.spend(s.moved(args[i]), w))
		}
	}
}

// visitSelection visits what a chain of selections, such as a[b].c, is made of.
func (s *selections) visitSelection(e ast.Expr, locals []string) {
	operand := e
	switch {
	case e.Kind() == ast.IdentKind:
		if e.AsIdent() == eventVariable && !slices.Contains(locals, eventVariable) {
			s.err = errEventIsNoValue
		}
		return
	case e.Kind() == ast.SelectKind:
		operand = e.AsSelect().Operand()
	default:
		operand = e.AsCall().Args()[0]
		s.visit(e.AsCall().Args()[1], false, locals)
	}
	switch {
	case operand.Kind() == ast.IdentKind && operand.AsIdent() == eventVariable:
	case operand.Kind() == ast.IdentKind, operand.Kind() == ast.SelectKind,
		operand.Kind() == ast.CallKind && operand.AsCall().FunctionName() == operators.Index:
		s.visitSelection(operand, locals)
	default:
		s.visit(operand, true, locals)
	}
}

// weigh returns the weights of a call's operands whose work is counted: those in a loop,
// the results of calls and loops, and the text that a pattern is matched against, but no
// constants.
func (s *selections) weigh(call ast.CallExpr, operands []ast.Expr, inLoop bool) []weight {
	weights := make([]weight, len(operands))
	for i, e := range operands {
		w := weightOf(call, i == 0)
		read := e.Kind() == ast.IdentKind || e.Kind() == ast.SelectKind
		if !s.isAccumulator(e) && !constant(e) && (inLoop || !read || w == matched) {
			weights[i] = w
		}
	}
	return weights
}

// limit makes a loop skip its step when the work exceeds its limit.
func (s *selections) limit(loopStep ast.Expr, accumulator string) {
	within := s.spend(s.ctx.NewLiteral(types.True), step)
	s.place(within, loopStep)
	loopStep.SetKindCase(s.ctx.NewCall(operators.Conditional, within, s.moved(loopStep), s.ctx.NewIdent(accumulator)))
}

func (s *selections) spend(operand ast.Expr, w weight) ast.Expr {
	return s.ctx.NewCall(spendFunction, s.ctx.NewIdent(budgetVariable), operand, s.ctx.NewLiteral(types.Int(w)))
}

func (s *selections) isAccumulator(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && e.AsIdent() == s.accumulator
}

func (s *selections) wrapSelection(e ast.Expr, nullable bool) {
	function := presentFunction
	if nullable {
		function = nullableFunction
	}
	if !s.isAccumulator(e) {
		e.SetKindCase(s.ctx.NewCall(function, s.moved(e)))
	}
}

// moved returns a new node with the content of e, at the same position, so that e can become
// a call that contains it.
func (s *selections) moved(e ast.Expr) ast.Expr {
	inner := s.ctx.NewLiteral(types.True)
	inner.SetKindCase(e)
	s.place(inner, e)
	return inner
}

// place gives a new node the position of another.
func (s *selections) place(e, other ast.Expr) {
	if at, ok := s.info.GetOffsetRange(other.ID()); ok {
		s.info.SetOffsetRange(e.ID(), at)
	}
}
