// Package finding describes the results of connection trials: whether a connection
// works and, if not, what to do about it.
package finding

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Result is the outcome of one step of a trial.
type Result string

// The results, from best to worst.
const (
	// OK means that the step works.
	OK Result = "ok"
	// Remark is information about a step that works.
	Remark Result = "remark"
	// Untried means that the step cannot be tried without changing something, or that
	// no time was left for it.
	Untried Result = "not tried"
	// Warning means that the step works now but may fail later, or works with a flaw.
	Warning Result = "warning"
	// Failed means that the step does not work.
	Failed Result = "failed"
)

// Finding is the result of one step. It contains no secrets. Its JSON is stable.
type Finding struct {
	// Target is what was tried, such as "sink lake".
	Target string `json:"target"`
	// Step is the step of the trial.
	Step string `json:"step"`
	// Result is ok, remark, not tried, warning or failed.
	Result Result `json:"result"`
	// Detail describes the result in one line.
	Detail string `json:"detail"`
	// Advice says what to do; it is empty if nothing has to be done.
	Advice string `json:"advice,omitempty"`
}

// Of sets the target of the findings and returns them.
func Of(target string, found []Finding) []Finding {
	for i := range found {
		found[i].Target = target
	}
	return found
}

// At prefixes the steps of the findings with a location, such as one of several
// servers, and returns them.
func At(location string, found []Finding) []Finding {
	for i := range found {
		found[i].Step = location + " " + found[i].Step
	}
	return found
}

// Failure returns the finding of a step that failed with err. If an error in its chain
// has a method Advice, that supplies the advice, which is removed from the detail.
func Failure(step string, err error) Finding {
	f := Finding{Step: step, Result: Failed, Detail: err.Error()}
	if e, ok := errors.AsType[advised](err); ok && e.Advice() != "" {
		f.Advice = e.Advice()
		f.Detail = strings.Replace(f.Detail, "; "+f.Advice, "", 1)
	}
	return f
}

// advised is an error that carries advice.
type advised interface {
	error
	Advice() string
}

// Half returns a context that ends with ctx or after half of its remaining time, so
// that an unresponsive peer leaves time for the next trial. If ctx has no deadline,
// neither has the result.
func Half(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}
