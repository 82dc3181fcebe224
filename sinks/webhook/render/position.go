package render

import (
	"fmt"
	"regexp"
	"strconv"
)

// positionError is an error of text/template that begins with its position.
type positionError struct {
	text string
	err  error
}

// Error returns the text with the position.
func (e *positionError) Error() string { return e.text }

// Unwrap returns the error of text/template.
func (e *positionError) Unwrap() error { return e.err }

// located matches the position in an error of text/template, and the call of a function that
// prepare added. A column counts from 0 and is only known while the template is executed.
var located = regexp.MustCompile(`^template: template:(\d+)(?::(\d+))?: (?:executing "[^"]*" at )?(?:<_.*?>: error calling _[a-z]+: )?`)

// locate returns an error of text/template with its position: the line, and the column if it is
// known, both counted from 1.
func locate(err error) error {
	message := err.Error()
	found := located.FindStringSubmatch(message)
	if found == nil {
		return err
	}
	position := "line " + found[1]
	if column, err := strconv.Atoi(found[2]); err == nil {
		position += fmt.Sprintf(", column %d", column+1)
	}
	return &positionError{position + " of the template: " + message[len(found[0]):], err}
}
