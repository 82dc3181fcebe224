package configs

import (
	"cmp"
	"fmt"
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

// sourceLine is the origin of a value: a variable, a position in the file, or neither.
type sourceLine struct {
	variable     string
	line, column int
	null         bool // the key is present without a value and keeps its default
}

// sourceLines records the origins of values by path, and the errors.
type sourceLines struct {
	file   string
	at     map[string]sourceLine
	errors Errors
}

// fail records an error of the key at path. If the key is not set, the error has the
// position of the innermost block that is.
func (p *sourceLines) fail(path, message string) {
	for at := path; ; at = parent(at) {
		origin, known := p.at[at]
		if !known && at != "" {
			continue
		}
		p.failAt(origin, path, message)
		return
	}
}

// isSet reports whether the key at path has a value in the file or the environment.
func (p *sourceLines) isSet(path string) bool {
	at, known := p.at[path]
	return known && !at.null
}

func (p *sourceLines) failAt(at sourceLine, path, message string) {
	e := &Error{Path: path, Line: at.line, Column: at.column, Variable: at.variable, Message: message}
	if at.line > 0 {
		e.File = p.file
	}
	p.errors = append(p.errors, e)
}

// parent returns the path of the block or list that contains path.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// longestWord is the length in bytes up to which words are compared and shown.
const longestWord = 100

// suggest returns the end of a message about an unknown word: a question whether a similar
// known word was meant, or "" if none is similar.
func suggest(word string, known []string) string {
	if len(word) > longestWord {
		return ""
	}
	best, least := "", min(max(len(word)/3, 1), 3)+1
	for _, candidate := range known {
		if d := distance(word, candidate); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance returns the edit distance between a and b in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
