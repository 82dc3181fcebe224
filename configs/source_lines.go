package configs

import "strings"

// sourceLine is where a value came from: a variable, or a line and column of the
// file, or neither.
type sourceLine struct {
	variable     string
	line, column int
	null         bool // the key is there without a value, and has its default
}

// sourceLines remembers, by path, where values came from and what was wrong.
type sourceLines struct {
	file   string
	at     map[string]sourceLine
	errors Errors
}

// fail records what is wrong with the key at path. Where that key was not set,
// the error shows the place of the block that lacks it.
func (p *sourceLines) fail(path, message string) {
	for at := path; ; at = parent(at) {
		place, known := p.at[at]
		if !known && at != "" {
			continue
		}
		p.failAt(place, path, message)
		return
	}
}

// isSet reports whether somebody gave the key at path a value.
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

// parent is the path of the block or list that holds path.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}
