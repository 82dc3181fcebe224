package match

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
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
