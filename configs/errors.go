package configs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Error is an error in a configuration. It never contains the value of a secret.
type Error struct {
	// Path is the path of the key, such as sinks[1].kafka.brokers, or empty for the file
	// as a whole.
	Path string
	// File, Line and Column are the position in the file. File is empty if the value does
	// not come from the file; Line and Column are 0 if unknown.
	File         string
	Line, Column int
	// Variable is the environment variable that set the value, or empty.
	Variable string
	// Message says what is wrong and what to do.
	Message string
}

// Error returns one line, file:line:column: path: message, without the parts that are
// unknown. If an environment variable set the value, its name replaces the position.
func (e *Error) Error() string {
	var parts []string
	switch {
	case e.Variable != "":
		parts = append(parts, e.Variable)
	case e.File != "":
		where := e.File
		if e.Line > 0 {
			where += ":" + strconv.Itoa(e.Line)
		}
		if e.Column > 0 {
			where += ":" + strconv.Itoa(e.Column)
		}
		parts = append(parts, where)
	}
	if e.Path != "" {
		parts = append(parts, e.Path)
	}
	return strings.Join(append(parts, e.Message), ": ")
}

// Errors holds all errors of a configuration: those of the file in its order, then those
// of the environment.
type Errors []*Error

// Error returns one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors, for errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

func (e Errors) sort() {
	group := func(one *Error) int {
		switch {
		case one.File != "":
			return 0
		case one.Variable != "":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(
			cmp.Compare(group(a), group(b)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Variable, b.Variable),
		)
	})
}
