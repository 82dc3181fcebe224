package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// RecordFilter is a filter of the appliance's REST interface: a field, an operator and an operand,
// or the operator and, or, or not with rules. {}: no filter. In an environment variable, it is
// written as JSON or YAML.
//
// Its JSON is the filter object of the interface.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    records:
//	      - name: errors
//	        filter: {operator: and, rules: [{field: statusCode, operator: ">=", operand: 500}, {field: .ipaddr, operator: in, operand: [10.0.0.1, 10.0.0.2]}]}
type RecordFilter struct {
	// Field is the name of the field, or .any, .ipaddr or .port. It is required, except with
	// the operators and, or and not.
	Field string `yaml:"field" json:"field,omitempty"`
	// Operator is how the field is compared with the operand, or how rules are combined. exists
	// and not_exists have no operand.
	Operator string `yaml:"operator" json:"operator" oneof:"=,!=,>,<,>=,<=,~,!~,startswith,in,not_in,exists,not_exists,and,or,not"`
	// Operand is a value, a list of values with in and not_in, or {type, value} with one of them
	// as the value. Numbers are sent as they are written.
	Operand operand `yaml:"operand" json:"operand,omitzero"`
	// Rules are the filters that and, or and not combine.
	Rules []RecordFilter `yaml:"rules" json:"rules,omitempty"`
}

// MarshalJSON returns the filter object, or null if f does not filter.
func (f RecordFilter) MarshalJSON() ([]byte, error) {
	if f.Operator == "" {
		return []byte("null"), nil
	}
	type object RecordFilter
	return json.Marshal(object(f))
}

// parseFilter parses the JSON or YAML of a filter or an operand, which is its form in an
// environment variable.
func parseFilter(text string) (*yaml.Node, error) {
	var document, rest yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&document); err != nil || len(document.Content) == 0 || !errors.Is(decoder.Decode(&rest), io.EOF) {
		return nil, errors.New("is neither JSON nor YAML; write a filter such as {\"field\": \"server\", \"operator\": \"=\", \"operand\": \"10.0.0.1\"}")
	}
	return document.Content[0], nil
}

// The operators of a filter, grouped by the keys that they require.
var (
	comparisons = []string{"=", "!=", ">", "<", ">=", "<=", "~", "!~", "startswith"}
	listed      = []string{"in", "not_in"}
	existence   = []string{"exists", "not_exists"}
	logical     = []string{"and", "or", "not"}
)

func (f *RecordFilter) check(c checks, path string) {
	is := func(names []string) bool { return slices.Contains(names, f.Operator) }
	isRule := strings.HasSuffix(path, "]")
	if f.Operator == "" && (isRule || len(setKeys(*f)) > 0) {
		c.wrong(path+".operator", "is missing; write one of %s", strings.Join(slices.Concat(comparisons, listed, existence, logical), ", "))
	}
	if !is(comparisons) && !is(listed) && !is(existence) && !is(logical) {
		return // none, or reported by the oneof tag
	}
	for _, part := range []struct {
		name        string
		needed, has bool
	}{
		{"field", !is(logical), f.Field != ""},
		{"operand", is(comparisons) || is(listed), f.Operand != operand{}},
		{"rules", is(logical), len(f.Rules) > 0},
	} {
		switch {
		case part.needed && !part.has:
			c.wrong(join(path, part.name), "is missing; the operator %s needs it", f.Operator)
		case !part.needed && part.has:
			c.wrong(join(path, part.name), "cannot be combined with the operator %s; leave it out", f.Operator)
		case part.name == "operand" && is(listed) && !f.Operand.isList:
			c.wrong(join(path, part.name), "expected a list of at least one value between [ and ], found one value")
		case part.name == "operand" && is(comparisons) && f.Operand.isList:
			c.wrong(join(path, part.name), "expected a value, found a list")
		}
	}
}

// operand is the JSON of an operand: a value, a list of values, or an object with type and value.
type operand struct {
	json   string
	isList bool // of the value
}

// MarshalJSON returns the operand.
func (o operand) MarshalJSON() ([]byte, error) { return []byte(o.json), nil }

// decode implements nodeDecoder.
func (o *operand) decode(p *sourceLines, path string, node *yaml.Node) {
	p.at[path] = p.origins[node]
	if resolve(node).Kind != yaml.MappingNode {
		(*operandValue)(o).decode(p, path, node)
		return
	}
	var typed struct {
		Type  string       `yaml:"type" json:"type"`
		Value operandValue `yaml:"value" json:"value"`
	}
	before := len(p.errors)
	p.decodeBlock(path, node, reflect.ValueOf(&typed).Elem())
	switch {
	case len(p.errors) > before:
	case typed.Type == "" || typed.Value == operandValue{}:
		p.fail(path, "has no type or no value; write {type: …, value: …}, or only the value")
	default:
		*o = operand{jsonText(typed), typed.Value.isList}
	}
}

// operandValue is an operand without a type.
type operandValue operand

// MarshalJSON returns the value.
func (o operandValue) MarshalJSON() ([]byte, error) { return []byte(o.json), nil }

// decode implements nodeDecoder.
func (o *operandValue) decode(p *sourceLines, path string, node *yaml.Node) {
	list := resolve(node)
	if list.Kind != yaml.SequenceNode {
		*o = operandValue{jsonText(p.jsonScalar(path, node)), false}
		return
	}
	if len(list.Content) == 0 {
		p.failNode(node, path, "expected at least one value between [ and ]")
	}
	values := make([]any, len(list.Content))
	for i, one := range list.Content {
		values[i] = p.jsonScalar(item(path, i), one)
	}
	*o = operandValue{jsonText(values), true}
}

// jsonText returns a value as JSON that is also valid YAML: YAML requires unprintable
// characters to be escaped, and does not support surrogate pairs.
func jsonText(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings, and literals that value has checked
	}
	var b strings.Builder
	for _, r := range string(encoded) {
		if unicode.IsPrint(r) || r > 0xFFFF {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// jsonScalar returns a scalar as it is written in the file.
func (p *sourceLines) jsonScalar(path string, node *yaml.Node) any {
	value := resolve(node)
	if !p.expandNode(path, value) {
		return nil
	}
	tag := value.ShortTag()
	switch {
	case value.Kind != yaml.ScalarNode || !slices.Contains(scalarTags, tag):
		p.failNode(node, path, "expected a value, found "+found(value))
	case value.Style == 0 && jsonNumber.MatchString(value.Value), tag == "!!bool" && (value.Value == "true" || value.Value == "false"):
		return json.RawMessage(value.Value)
	case tag == "!!str" || tag == "!!timestamp":
		return value.Value
	default:
		p.failNode(node, path, fmt.Sprintf("%q cannot be written in JSON; write true, false, a plain number, or put it in quotes", value.Value))
	}
	return nil
}

// node returns the operand for Print.
func (o operand) node() (*yaml.Node, error) {
	if o.json == "" {
		return new(yaml.Node), nil
	}
	return parseFilter(o.json)
}
