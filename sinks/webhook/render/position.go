package render

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
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
// prepare added. Its column counts from 0 and is only known while the template is executed.
var located = regexp.MustCompile(`^template: template:(\d+)(?::(\d+))?: (?:executing "[^"]*" at )?(?:<_.*?>: error calling _[a-z]+: )?`)

// locate returns an error of text/template with its position in text: line and column, both
// counted from 1.
func locate(text string, err error) error {
	message := err.Error()
	found := located.FindStringSubmatch(message)
	if found == nil {
		return err
	}
	line, _ := strconv.Atoi(found[1])
	column, known := strconv.Atoi(found[2])
	if known != nil {
		column = columnOf(text, line)
	}
	return &positionError{fmt.Sprintf("line %d, column %d of the template: %s", line, column+1, message[len(found[0]):]), err}
}

// columnOf returns the offset in a line, counted from 0, of the first action of the line
// that is a syntax error.
func columnOf(text string, line int) int {
	before := 0
	for range line - 1 {
		before += strings.IndexByte(text[before:], '\n') + 1
	}
	rest, _, _ := strings.Cut(text[before:], "\n")
	begin := 0
	for {
		action := strings.Index(rest[begin:], "{{")
		if action < 0 {
			return max(begin-len("{{"), 0) // of the last one
		}
		begin += action
		end := strings.Index(rest[begin:], "}}")
		if end < 0 {
			return begin
		}
		end += begin + len("}}")
		// Blocks that the text up to here leaves open are not the error.
		_, err := template.New("template").Funcs((&budget{}).functions()).Parse(text[:before+end])
		if err != nil && !strings.Contains(err.Error(), "unexpected EOF") {
			return begin
		}
		begin += len("{{")
	}
}
