package tickets

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
)

// ErrSyntax says that what was sent is no command, whatever its values: no JSON, a
// field that no command has, a value of the wrong type. It comes wrapped.
var ErrSyntax = errors.New("not a ticket command")

// SyntaxError is an ErrSyntax whose place in the JSON is known.
type SyntaxError struct {
	// Field is the path of what is wrong, such as status or [1].status; empty: the
	// JSON as a whole.
	Field   string
	Problem string
}

// Error is one line for a person.
func (e *SyntaxError) Error() string {
	if e.Field == "" {
		return ErrSyntax.Error() + ": " + e.Problem
	}
	return fmt.Sprintf("%v: %s %s", ErrSyntax, e.Field, e.Problem)
}

// Is makes it an ErrSyntax.
func (e *SyntaxError) Is(target error) bool { return target == ErrSyntax }

// Parse reads a command, or a list of them, from JSON. several tells that it was a
// list, which is never empty. The error is a *SyntaxError; the values are not
// checked.
func Parse(data []byte) (commands []Command, several bool, err error) {
	several = bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("["))
	strict := json.RejectUnknownMembers(true)
	if several {
		err = json.Unmarshal(data, &commands, strict)
	} else {
		commands = make([]Command, 1)
		err = json.Unmarshal(data, &commands[0], strict)
	}
	switch {
	case err != nil:
		return nil, several, newSyntaxError(err)
	case len(commands) == 0:
		return nil, several, &SyntaxError{Problem: "the list is empty"}
	}
	return commands, several, nil
}

func newSyntaxError(err error) error {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return &SyntaxError{Problem: "it is no JSON (" + strings.TrimPrefix(err.Error(), "jsontext: ") + ")"}
	}
	e := &SyntaxError{}
	for token := range semantic.JSONPointer.Tokens() {
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			e.Field += "[" + token + "]"
		case e.Field == "":
			e.Field = token
		default:
			e.Field += "." + token
		}
	}
	switch {
	case errors.Is(err, json.ErrUnknownName):
		e.Problem = "is a field that no command has: it has " + strings.Join(fields(), ", ")
	case semantic.GoType != nil:
		e.Problem = "must be " + wanted(semantic.GoType)
	default:
		e.Problem = "has a value that cannot be read"
	}
	return e
}

// wanted names what JSON must hold for a type.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int64:
		return "a whole number"
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "a list"
	}
	return "text"
}

// fields are the names of a command's fields in JSON.
func fields() []string {
	var names []string
	for f := range reflect.TypeFor[Command]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
