package configs

import "strings"

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
