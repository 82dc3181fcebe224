package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/internal/similar"

	"go.yaml.in/yaml/v3"
)

// Error is an error in a configuration. It never contains the value of a secret.
type Error struct {
	// Path is the path of the key, such as sinks[1].kafka.brokers, or empty for the file
	// as a whole.
	Path string
	// File, Line and Column are the position of the value. File is empty if the value does
	// not come from a file; Line and Column are 0 if unknown.
	File         string
	Line, Column int
	// Variable is the environment variable that set the value, or empty.
	Variable string
	// Message says what is wrong and what to do.
	Message string
}

// Error returns one line, file:line:column: path: message, without the parts that are
// unknown. If the value does not come from a file, Variable replaces the position.
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

// Errors holds all errors of a configuration: those of the files in their order, then those
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

// sort puts the errors in the order that Errors documents.
func (p *sourceLines) sort() {
	group := func(one *Error) int {
		switch {
		case one.File != "":
			return slices.Index(p.files, one.File)
		case one.Variable != "":
			return len(p.files)
		}
		return len(p.files) + 1
	}
	slices.SortStableFunc(p.errors, func(a, b *Error) int {
		return cmp.Or(
			cmp.Compare(group(a), group(b)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Variable, b.Variable),
		)
	})
}

// sourceLine is the origin of a value: a variable, a position in a file, or neither.
type sourceLine struct {
	variable     string
	file         string
	folder       string // to which relative paths are relative
	line, column int
	reference    bool // the value, or part of it, is that of a variable
	null         bool // the key is present without a value and keeps its default
}

// sourceLines records the origins of values by path, and the errors.
type sourceLines struct {
	files       []string                  // the names of the files, in order
	environment map[string]string         // for references in values
	origins     map[*yaml.Node]sourceLine // of the nodes that files and variables have
	meant       []string                  // paths of the keys for which unknown ones most likely stand
	around      []enclosing               // the blocks that are being read, from the outermost
	at          map[string]sourceLine
	expanded    map[*yaml.Node]bool // scalars that contained ${ or $${, and those of variables; true: a reference
	errors      Errors
	blocks      int // that were read so far

	withoutSecrets bool // as in Source
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

// isSet reports whether the key at path has a value in a file or the environment.
func (p *sourceLines) isSet(path string) bool {
	at, known := p.at[path]
	return known && !at.null
}

func (p *sourceLines) failAt(at sourceLine, path, message string) {
	p.errors = append(p.errors, &Error{Path: path, File: at.file, Line: at.line, Column: at.column, Variable: at.variable, Message: message})
}

// parent returns the path of the block or list that contains path.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// longestWord is the length in bytes up to which words are shown.
const longestWord = 100

// suggest returns the end of a message about an unknown word: a question whether a similar
// known word was meant, or "" if none is similar.
func suggest(word string, known []string) string {
	if best := similar.Nearest(word, known); best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}
	return ""
}

// enumerate returns words in a sentence, with a conjunction before the last.
func enumerate(words []string, conjunction string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}
