package match

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// maxWork is how much work matching one event may be, whatever was estimated, in
// units of some 20 nanoseconds. CEL can count costs while it evaluates, but is ten
// times slower then. Here only what an expression can do over and over is counted:
// the steps of loops, and what the calls in them do with their operands. All else is
// done once, and bounded by the event's size.
const maxWork = 2_000_000

// stepWork is what a step of a loop is without its calls.
const stepWork = 20

// weight says how the work of a call grows with an operand.
type weight uint8

const (
	weightless weight = iota
	compared          // with the elements of lists and objects
	scanned           // with the bytes of a text
	matched           // with the bytes of a text, by a pattern
	pattern           // that has to be compiled
	zoned             // not: a time zone is read from its file
)

// weightOf is the weight of a call's operand; first is a member function's target.
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

// work is that of a call with this operand. It may stop to count above most.
func (w weight) work(operand ref.Val, most int) int {
	const least = 2
	switch w {
	case zoned:
		return 2500
	case compared:
		return least + elementWork(operand, most)
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
		return least + 10*size
	case pattern:
		return least + 100*size
	}
	return least + size/16
}

// counted is the operand, or an error value where there is too much work.
func (w weight) counted(r *reading, operand ref.Val) ref.Val {
	if err := r.spend(w.work(operand, maxWork-r.work)); err != nil {
		return err
	}
	return operand
}

// elementWork is the work of comparing a value to one like it.
func elementWork(value ref.Val, most int) int {
	const element = 4
	work := 0
	switch v := value.(type) {
	case types.String:
		return len(v) / 512
	case types.Bytes:
		return len(v) / 512
	case traits.Lister:
		for it := v.Iterator(); work <= most && it.HasNext() == types.True; {
			work += element + elementWork(it.Next(), most-work)
		}
	case traits.Mapper:
		for it := v.Iterator(); work <= most && it.HasNext() == types.True; {
			work += 2*element + elementWork(v.Get(it.Next()), most-work)
		}
	}
	return work
}

// constant reports whether a node is made of literals alone.
func constant(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			if !constant(element) {
				return false
			}
		}
		return true
	}
	return false
}
