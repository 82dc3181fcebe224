package tickets

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
)

// ErrSyntax means that the data is not a command, whatever its values: invalid JSON, an
// unknown field, or a value of the wrong type. It is always wrapped.
var ErrSyntax = errors.New("not a ticket command")

// SyntaxError is an ErrSyntax with its location in the JSON.
type SyntaxError struct {
	// Field is the path of the invalid value, such as status or [1].status; it is empty
	// if the error concerns the JSON as a whole.
	Field   string
	Problem string
}

// Error returns the problem in one line.
func (e *SyntaxError) Error() string {
	if e.Field == "" {
		return ErrSyntax.Error() + ": " + e.Problem
	}
	return fmt.Sprintf("%v: %s %s", ErrSyntax, e.Field, e.Problem)
}

// Is reports whether target is ErrSyntax.
func (e *SyntaxError) Is(target error) bool { return target == ErrSyntax }

// Parse reads a command or a list of commands from JSON. several reports whether it was
// a list; the list is never empty. The error is a *SyntaxError. Parse does not check
// the values of fields.
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
		return &SyntaxError{Problem: "it is not valid JSON (" + strings.TrimPrefix(err.Error(), "jsontext: ") + ")"}
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
		e.Problem = "is an unknown field: a command has " + strings.Join(fields(), ", ")
	case semantic.GoType != nil:
		e.Problem = "must be " + jsonType(semantic.GoType)
	default:
		e.Problem = "has a value that cannot be read"
	}
	return e
}

// jsonType describes the JSON value that a type requires.
func jsonType(t reflect.Type) string {
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

// fields returns the JSON names of a command's fields.
func fields() []string {
	var names []string
	for f := range reflect.TypeFor[Command]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
