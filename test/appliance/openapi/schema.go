package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// schemas compiles the schemas of a document.
type schemas struct {
	document any
	compiler *jsonschema.Compiler
}

const address = "mem:///openapi.json"

func newSchemas(document []byte) (*schemas, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(address, value); err != nil {
		return nil, err
	}
	return &schemas{value, c}, nil
}

// compile returns the schema at a JSON pointer, which begins with #.
func (s *schemas) compile(pointer string) (*jsonschema.Schema, error) {
	schema, err := s.compiler.Compile(address + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", pointer, err)
	}
	return schema, nil
}

// content returns the schemas of the content of a body at a pointer, by media type.
func (s *schemas) content(pointer string, content map[string]any) (map[string]*jsonschema.Schema, error) {
	compiled := make(map[string]*jsonschema.Schema, len(content))
	for mediaType := range content {
		schema, err := s.compile(pointer + "/content/" + escape(mediaType) + "/schema")
		if err != nil {
			return nil, err
		}
		compiled[mediaType] = schema
	}
	return compiled, nil
}

// decode decodes the value at a JSON pointer.
func (s *schemas) decode(pointer string, into any) error {
	value := s.document
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "#/"), "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return fmt.Errorf("there is no %s", pointer)
			}
			value = v[i]
		default:
			return fmt.Errorf("there is no %s", pointer)
		}
	}
	if value == nil {
		return fmt.Errorf("there is no %s", pointer)
	}
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", pointer, err)
	}
	return nil
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// explain returns a validation's error as one line: the path of the value that does not
// fit, with dots, and the reason.
func explain(err error) error {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	// Of several causes, the deepest is most likely what the client meant.
	deepest := invalid
	var visit func(*jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && (len(deepest.Causes) > 0 || len(e.InstanceLocation) > len(deepest.InstanceLocation)) {
			deepest = e
		}
		for _, cause := range e.Causes {
			visit(cause)
		}
	}
	visit(invalid)
	reason := deepest.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	switch broken := deepest.ErrorKind.(type) { // without the value, which may be a secret
	case *kind.FalseSchema:
		reason = "not possible here"
	case *kind.Pattern:
		reason = "it does not match the pattern " + broken.Want
	case *kind.Format:
		reason = "it is not of the format " + broken.Want
	}
	if len(deepest.InstanceLocation) > 0 {
		reason = strings.Join(deepest.InstanceLocation, ".") + ": " + reason
	}
	const most = 500 // names that a client chose may be long
	if len(reason) > most {
		reason = strings.ToValidUTF8(reason[:most], "") + "…"
	}
	return errors.New(reason)
}
