//go:build e2e

package page

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"ndrbridge/test/require"
)

// axe checks the accessibility of a page. It runs in an isolated world, to which the
// page's security policy does not apply.
type axe struct{ source string }

func loadAxe(t *testing.T) axe {
	t.Helper()
	source, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	require.NoError(t, err, "install axe-core here with npm ci --ignore-scripts")
	return axe{string(source)}
}

// violation is a rule of axe-core that a page violates, with the elements.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// check reports each violation as an error of the test. when describes the state of the
// page.
func (a axe) check(p *tab, when string) {
	p.t.Helper()
	frame := call(p, cdppage.GetFrameTree, cdp.Empty{}).FrameTree.Frame.ID
	world := call(p, cdppage.CreateIsolatedWorld, cdppage.CreateIsolatedWorldParams{FrameID: frame, WorldName: "axe"}).ExecutionContextID
	for _, expression := range []string{a.source, "axe.run(document, {resultTypes: ['violations']}).then((r) => JSON.stringify(r.violations))"} {
		answer := call(p, runtime.Evaluate, runtime.EvaluateParams{
			Expression: expression, ContextID: world, AwaitPromise: new(true), ReturnByValue: new(true),
		})
		require.True(p.t, answer.ExceptionDetails == nil, "axe-core", answer.ExceptionDetails)
		if expression == a.source {
			continue
		}
		var text string
		var violations []violation
		require.NoError(p.t, json.Unmarshal(answer.Result.Value, &text))
		require.NoError(p.t, json.Unmarshal([]byte(text), &violations))
		for _, v := range violations {
			for _, n := range v.Nodes {
				p.t.Errorf("%s: %s (%s): %s\n%s\n%s", when, v.ID, v.Impact, v.Help, n.HTML, n.FailureSummary)
			}
		}
	}
}
