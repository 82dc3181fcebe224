// Package preflight holds what trying a connection found: whether it would work, and
// where it would not, what a person can do about it.
package preflight

import (
	"errors"
	"strings"
)

// Result is what became of one step of a trial.
type Result string

// The results, from good to bad.
const (
	// OK says that the step works.
	OK Result = "ok"
	// Remark tells something to know of what works.
	Remark Result = "remark"
	// Untried says that the step cannot be tried without changing something, or that
	// there was no time left for it.
	Untried Result = "not tried"
	// Warning says that it works, and will not always, or not well.
	Warning Result = "warning"
	// Failed says that it would not work.
	Failed Result = "failed"
)

// Finding is what one step found. No part of it holds a secret. Its JSON is stable.
type Finding struct {
	// Target is what was tried, such as "sink lake".
	Target string `json:"target"`
	// Step is which part of it.
	Step   string `json:"step"`
	Result Result `json:"result"`
	// Detail is what was found, as one line.
	Detail string `json:"detail"`
	// Advice is what a person can do; empty: nothing has to be done.
	Advice string `json:"advice,omitempty"`
}

// Of makes the findings those of a target, and returns them.
func Of(target string, found []Finding) []Finding {
	for i := range found {
		found[i].Target = target
	}
	return found
}

// At puts a place in front of the findings' steps, such as one of several servers, and
// returns them.
func At(place string, found []Finding) []Finding {
	for i := range found {
		found[i].Step = place + " " + found[i].Step
	}
	return found
}

// Hide passes what others had a part in through hide, which takes secrets out, and
// returns the findings.
func Hide(found []Finding, hide func(string) string) []Finding {
	for i, f := range found {
		found[i].Step, found[i].Detail, found[i].Advice = hide(f.Step), hide(f.Detail), hide(f.Advice)
	}
	return found
}

// Failure is the finding of a step that failed with err. Where an error of its chain
// has a method Advice, that is the advice, and the detail is without it.
func Failure(step string, err error) Finding {
	f := Finding{Step: step, Result: Failed, Detail: err.Error()}
	if e, ok := errors.AsType[advised](err); ok && e.Advice() != "" {
		f.Advice = e.Advice()
		f.Detail = strings.Replace(f.Detail, " ("+f.Advice+")", "", 1)
	}
	return f
}

// advised is an error that knows what to do.
type advised interface {
	error
	Advice() string
}
