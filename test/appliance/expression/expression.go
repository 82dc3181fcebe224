// Package expression compiles the regular expressions that clients of the stand-in appliance
// send, of which it bounds the time that matching takes.
package expression

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// The size of a regular expression.
const (
	maxLength = 256 // bytes
	// MaxSteps is the number of its instructions, to which the time for matching is in
	// proportion.
	MaxSteps = 2000
)

// Compile compiles a regular expression and returns the number of its instructions. It refuses
// what is too long or has more than MaxSteps.
func Compile(text string) (compiled *regexp.Regexp, steps int, err error) {
	if len(text) > maxLength {
		return nil, 0, fmt.Errorf("a regular expression has at most %d bytes", maxLength)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, errors.New("is not a regular expression")
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, 0, errors.New("is not a regular expression")
	}
	if steps = len(program.Inst); steps > MaxSteps {
		return nil, 0, errors.New("the regular expression is too complex")
	}
	compiled, err = regexp.Compile(text)
	return compiled, steps, err
}
