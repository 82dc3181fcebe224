package match

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
)

// costLimit is what matching one event may cost at most, in CEL's units: some
// milliseconds.
const costLimit = 200_000

// assumedSize is how many elements a list, or characters a text, is taken to have
// when an expression is compiled.
const assumedSize = 100

// checkCost refuses an expression that would reach the limit with the events that
// are to be expected.
func checkCost(env *cel.Env, ast *cel.Ast) error {
	cost, err := env.EstimateCost(ast, sizes{})
	if err != nil {
		return fmt.Errorf("estimating the expression's cost: %w", err)
	}
	if cost.Max > costLimit {
		return fmt.Errorf("the expression would take too long over an event: with lists of %d elements its cost is %d, and at most %d is allowed; put fewer loops into each other",
			assumedSize, cost.Max, costLimit)
	}
	return nil
}

// sizes implements checker.CostEstimator.
type sizes struct{}

func (sizes) EstimateSize(checker.AstNode) *checker.SizeEstimate {
	return &checker.SizeEstimate{Min: 0, Max: assumedSize}
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil // CEL's own
}
