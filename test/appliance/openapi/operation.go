package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Operation is a method of a path. It is immutable.
type Operation struct {
	Method string
	Path   string // below Root, with {NAME} for a parameter
	// Name is the method and the path as the interface document writes it, with /service
	// for the product's word.
	Name       string
	Tag        string // the resource that it belongs to
	Summary    string
	Privileges map[string]string // the least level of each required privilege
	Changes    bool              // whether it may change the appliance

	segments   []segment
	query      map[string]parameter
	bodies     map[string]*jsonschema.Schema // by media type
	bodyNeeded bool
	responses  map[string]response // by status
}

// segment is a part of a path between slashes.
type segment struct {
	text    string // the name of a parameter if it is one
	isParam bool
	integer bool
}

type parameter struct {
	schema   *jsonschema.Schema
	required bool
}

type response struct {
	headers []string                      // that must be there
	bodies  map[string]*jsonschema.Schema // by media type; empty: no body
}

// The parts of OpenAPI that an operation is made of.
type (
	wireOperation struct {
		Tags        []string
		Summary     string
		Parameters  []wireParameter
		RequestBody *struct {
			Required bool
			Content  map[string]any
		}
		Responses  map[string]wireResponse
		Privileges map[string]string `json:"x-privileges"`
		Changes    *bool             `json:"x-changes"`
	}
	wireParameter struct {
		Ref      string `json:"$ref"`
		Name, In string
		Required bool
		Schema   struct{ Type any }
	}
	wireResponse struct {
		Ref     string `json:"$ref"`
		Content map[string]any
		Headers map[string]struct{ Required bool }
	}
)

func newOperation(s *schemas, path, method string) (*Operation, error) {
	o := &Operation{
		Method: strings.ToUpper(method), Path: path,
		query: make(map[string]parameter), responses: make(map[string]response),
	}
	if !slices.Contains(methods, o.Method) {
		return nil, fmt.Errorf("the method %s is unknown", method)
	}
	at := "#/paths/" + escape(path) + "/" + method
	var w wireOperation
	if err := s.decode(at, &w); err != nil {
		return nil, err
	}
	if len(w.Tags) != 1 {
		return nil, errors.New("it must have one tag")
	}
	o.Tag, o.Summary, o.Privileges = w.Tags[0], w.Summary, w.Privileges
	o.Changes = o.Method != http.MethodGet && (w.Changes == nil || *w.Changes)

	integers, err := o.readParameters(s, at, w.Parameters)
	if err != nil {
		return nil, err
	}
	for text := range strings.SplitSeq(path, "/") {
		name, isParam := strings.CutPrefix(text, "{")
		name = strings.TrimSuffix(name, "}")
		integer, known := integers[name]
		if isParam && !known {
			return nil, fmt.Errorf("the parameter %s is not described", name)
		}
		o.segments = append(o.segments, segment{name, isParam, integer})
	}
	if w.RequestBody != nil {
		o.bodyNeeded = w.RequestBody.Required
		if o.bodies, err = s.content(at+"/requestBody", w.RequestBody.Content); err != nil {
			return nil, err
		}
	}
	for status, r := range w.Responses {
		where := at + "/responses/" + status
		if r.Ref != "" {
			where = r.Ref
			if err := s.decode(where, &r); err != nil {
				return nil, err
			}
		}
		var made response
		for name, header := range r.Headers {
			if header.Required {
				made.headers = append(made.headers, name)
			}
		}
		if made.bodies, err = s.content(where, r.Content); err != nil {
			return nil, err
		}
		o.responses[status] = made
	}
	return o, nil
}

// readParameters adds the parameters of the query, and returns which of those in the path
// are integers.
func (o *Operation) readParameters(s *schemas, at string, parameters []wireParameter) (map[string]bool, error) {
	integers := make(map[string]bool)
	for i, p := range parameters {
		where := fmt.Sprintf("%s/parameters/%d", at, i)
		if p.Ref != "" {
			where = p.Ref
			if err := s.decode(where, &p); err != nil {
				return nil, err
			}
		}
		schema, err := s.compile(where + "/schema")
		if err != nil {
			return nil, err
		}
		switch p.In {
		case "path":
			integers[p.Name] = isInteger(schema)
		case "query":
			o.query[p.Name] = parameter{schema, p.Required}
		case "header": // is not checked
		default:
			return nil, fmt.Errorf("the parameter %s is in %q", p.Name, p.In)
		}
	}
	return integers, nil
}

func isInteger(s *jsonschema.Schema) bool {
	for s.Ref != nil {
		s = s.Ref
	}
	return s.Types != nil && slices.Contains(s.Types.ToStrings(), "integer")
}

func (o *Operation) matches(path []string) bool {
	for i, s := range o.segments {
		switch {
		case !s.isParam:
			if path[i] != s.text {
				return false
			}
		case s.integer:
			if _, err := strconv.ParseUint(path[i], 10, 63); err != nil { // without a sign
				return false
			}
		case path[i] == "":
			return false
		}
	}
	return true
}

func (o *Operation) parametersOf(path []string) map[string]string {
	var found map[string]string
	for i, s := range o.segments {
		if s.isParam {
			if found == nil {
				found = make(map[string]string, 1)
			}
			found[s.text] = path[i]
		}
	}
	return found
}

// MediaTypes returns the types of body that the operation accepts, sorted; none: it has no
// body.
func (o *Operation) MediaTypes() []string {
	types := make([]string, 0, len(o.bodies))
	for name := range o.bodies {
		types = append(types, name)
	}
	slices.Sort(types)
	return types
}

// NeedsBody reports whether a request must have a body.
func (o *Operation) NeedsBody() bool { return o.bodyNeeded }

// CheckQuery returns an error that says which parameter of a query does not fit.
func (o *Operation) CheckQuery(query url.Values) error {
	for name, values := range query {
		p, ok := o.query[name]
		switch {
		case !ok:
			return fmt.Errorf("unknown parameter %s", name)
		case len(values) > 1:
			return fmt.Errorf("%s: given more than once", name)
		}
		if err := p.check(values[0]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, p := range o.query {
		if p.required && !query.Has(name) {
			return fmt.Errorf("the parameter %s is required", name)
		}
	}
	return nil
}

// check checks the text of a parameter as every JSON value that it can stand for.
func (p parameter) check(text string) error {
	var number any
	if n := json.Number(text); isNumber(text) {
		number = n
	}
	candidates := []any{number, text}
	if text == "true" || text == "false" {
		candidates = []any{text == "true", text}
	}
	var first error
	for _, value := range candidates {
		if value == nil {
			continue
		}
		err := p.schema.Validate(value)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return explain(first)
}

func isNumber(text string) bool {
	return text != "" && strings.IndexByte("-0123456789", text[0]) >= 0 && json.Valid([]byte(text)) && isShort(json.Number(text))
}

// CheckBody returns an error that says which part of a body does not fit. value is the body
// decoded by [jsonschema.UnmarshalJSON], or its text if the media type is not JSON.
func (o *Operation) CheckBody(mediaType string, value any) error {
	schema := o.bodies[mediaType]
	if schema == nil {
		return nil
	}
	if n, ok := longNumber(value); ok {
		return fmt.Errorf("the number %.20s has too many digits, or too large an exponent", n)
	}
	return explain(schema.Validate(value))
}

// CheckResponse returns an error if the interface does not describe an answer. It is for
// tests: a client cannot rely on what this finds.
func (o *Operation) CheckResponse(status int, header http.Header, body []byte) error {
	r, ok := o.responses[strconv.Itoa(status)]
	if !ok {
		return fmt.Errorf("the status %d is not described", status)
	}
	for _, name := range r.headers {
		if header.Get(name) == "" {
			return fmt.Errorf("the header %s is missing", name)
		}
	}
	if len(r.bodies) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("a body of %d bytes is not described", len(body))
		}
		return nil
	}
	mediaType, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	schema, ok := r.bodies[mediaType]
	if !ok {
		return fmt.Errorf("the type %q of the body is not described", mediaType)
	}
	if schema == nil || !isJSON(mediaType) {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return explain(schema.Validate(value))
}

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}
