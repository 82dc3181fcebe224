package match

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
)

// maxCost is what matching one event may cost at most by estimate, in CEL's units:
// some tens of milliseconds.
const maxCost = 1_000_000

// assumedSize is how many elements a list, or characters a text, is taken to have
// by the estimate.
const assumedSize = 100

// checkCost refuses an expression that costs too much by estimate.
func checkCost(env *cel.Env, ast *cel.Ast) error {
	cost, err := env.EstimateCost(ast, sizes{})
	if err != nil {
		return fmt.Errorf("estimating the expression's cost: %w", err)
	}
	if cost.Max > maxCost {
		return fmt.Errorf("the expression would take too long over an event: with lists of %d elements it costs %d units, and %d are allowed; put fewer loops into each other",
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
	return nil // CEL's own
}
