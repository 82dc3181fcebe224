package configs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Error is one thing that is wrong with a configuration. It never shows the
// value of a secret.
type Error struct {
	// Path is the key that is wrong, such as sinks[1].kafka.brokers; empty for
	// the file as a whole.
	Path string
	// File, Line and Column say where in the file: 0 where that is not known,
	// and File is empty where the file did not say it.
	File         string
	Line, Column int
	// Variable is the environment variable that set the value, or empty.
	Variable string
	// Message says what is wrong and what to do.
	Message string
}

// Error is one line: file:line:column: path: message, less what is not known,
// with the variable in place of the file where that set the value.
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

// Errors is everything that is wrong with a configuration, in the order of the
// file, then of the environment.
type Errors []*Error

// Error is one line for each.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find each.
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
