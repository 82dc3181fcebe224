package match

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// maxCost is the maximum estimated cost of matching one event, in CEL's units: some
// tens of milliseconds.
const maxCost = 1_000_000

// assumedSize is the assumed number of elements of a list, or characters of a string,
// in the estimate.
const assumedSize = 100

// checkCost returns an error if the estimated cost of an expression is too high.
func checkCost(env *cel.Env, ast *cel.Ast) error {
	cost, err := env.EstimateCost(ast, sizes{})
	if err != nil {
		return fmt.Errorf("estimate the expression's cost: %w", err)
	}
	if cost.Max > maxCost {
		return fmt.Errorf("the expression would take too long to evaluate: with lists of %d elements it costs %d units, and %d are allowed; nest fewer loops",
			assumedSize, cost.Max, maxCost)
	}
	return nil
}

// sizes implements checker.CostEstimator.
type sizes struct{}

func (sizes) EstimateSize(checker.AstNode) *checker.SizeEstimate {
	return &checker.SizeEstimate{Min: 0, Max: assumedSize}
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil // use CEL's estimate
}

// maxWork is the maximum work of matching one event, regardless of the estimate, in
// units of about 20 nanoseconds. CEL can count costs during evaluation (cel.CostLimit),
// but then takes time that grows with the square of a list's length: 12 seconds for a
// loop over 80,000 numbers, which costs less than CEL's limit. It also counts a call
// after it was made. Only repeated work is counted: the steps of loops, and the work of
// calls in them on their operands. Everything else is done once, and bounded by the
// event's size.
const maxWork = 2_000_000

// weight is how the work of a call grows with an operand.
type weight int64

const (
	weightless weight = iota
	step              // constant: a loop's step without its calls
	compared          // with the elements of lists and objects
	scanned           // with the bytes of a string
	matched           // with the bytes of a string, for a pattern
	pattern           // compiled for each call
	zoned             // constant: a time zone is read from its file
)

// weightOf returns the weight of a call's operand. first means that it is a member
// function's target, or the first argument.
func weightOf(call ast.CallExpr, first bool) weight {
	switch name := call.FunctionName(); name {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse,
		operators.Conditional, operators.Index:
		return weightless
	case operators.Equals, operators.NotEquals, operators.In,
		operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return compared
	case overloads.Matches:
		if first {
			return matched
		}
		return pattern
	default:
		if first && strings.HasPrefix(name, "get") && len(call.Args()) == 1 { // such as getHours("Europe/Berlin")
			return zoned
		}
		return scanned
	}
}

// work returns the work of a call with this operand. It may stop counting above limit.
func (w weight) work(operand ref.Val, limit int) int {
	const callWork = 2
	switch w {
	case step:
		return 20
	case zoned:
		return 2500
	case compared:
		return callWork + elementWork(operand, limit)
	}
	size := 0
	switch v := operand.(type) {
	case types.String:
		size = len(v)
	case types.Bytes:
		size = len(v)
	}
	switch w {
	case matched:
		return callWork + 10*size
	case pattern:
		return callWork + 100*size
	}
	return callWork + size/16
}

// spend is the function that counts: it returns the value that a call gets as its
// operand, or an error if the limit is exceeded.
func spend(args ...ref.Val) ref.Val {
	b, w := args[0].(*budget), args[2].(types.Int)
	if b.work += weight(w).work(args[1], maxWork-b.work); b.work > maxWork {
		return types.NewErr("the evaluation was stopped: its loops and patterns take too long for this event")
	}
	return args[1]
}

// budget is the work of one evaluation. It is the value of a variable, so that spend
// gets it; as a value it is null.
type budget struct {
	types.Null
	work int
}

// elementWork returns the work of comparing a value to a similar one.
func elementWork(value ref.Val, limit int) int {
	const element = 4
	work := 0
	switch v := value.(type) {
	case types.String:
		return len(v) / 512
	case types.Bytes:
		return len(v) / 512
	case traits.Lister:
		for it := v.Iterator(); work <= limit && it.HasNext() == types.True; {
			work += element + elementWork(it.Next(), limit-work)
		}
	case traits.Mapper:
		for it := v.Iterator(); work <= limit && it.HasNext() == types.True; {
			work += 2*element + elementWork(v.Get(it.Next()), limit-work)
		}
	}
	return work
}

// constant reports whether a node consists of literals only.
func constant(e ast.Expr) bool {
	isVariable := func(e ast.Expr) bool { return !constant(e) }
	return e.Kind() == ast.LiteralKind ||
		e.Kind() == ast.ListKind && !slices.ContainsFunc(e.AsList().Elements(), isVariable)
}
