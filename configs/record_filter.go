package configs

import (
	"bytes"
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

// RecordFilter is the filter object of a record search in the appliance's REST interface:
// a field, an operator and an operand, or the operator and, or, or not with rules. The
// zero RecordFilter does not filter. Numbers are kept as they are written.
type RecordFilter struct {
	json string // empty: no filter
}

// MarshalJSON returns the filter object, or null if f does not filter.
func (f RecordFilter) MarshalJSON() ([]byte, error) {
	if f.json == "" {
		return []byte("null"), nil
	}
	return []byte(f.json), nil
}

// UnmarshalText parses the JSON or YAML of a filter, which is its form in an environment
// variable. The error reports all mistakes.
func (f *RecordFilter) UnmarshalText(text []byte) error {
	var document, rest yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&document); err != nil || len(document.Content) == 0 || !errors.Is(decoder.Decode(&rest), io.EOF) {
		return errors.New("is neither JSON nor YAML; write a filter such as {\"field\": \"server\", \"operator\": \"=\", \"operand\": \"10.0.0.1\"}")
	}
	p := &sourceLines{at: make(map[string]sourceLine)}
	f.decode(p, "", document.Content[0])
	if len(p.errors) == 0 {
		return nil
	}
	return errors.New(strings.ReplaceAll(p.errors.Error(), "\n", "; "))
}

// The operators of a filter, grouped by the keys that they require.
var (
	comparisons = []string{"=", "!=", ">", "<", ">=", "<=", "~", "!~", "startswith"}
	listed      = []string{"in", "not_in"}
	existence   = []string{"exists", "not_exists"}
	logical     = []string{"and", "or", "not"}
	operators   = slices.Concat(comparisons, listed, existence, logical)
)

// Limits of a filter: how deeply rules may be nested, and how many there may be. A few
// nested YAML aliases could otherwise expand to any number of rules.
const (
	maxFilterDepth = 16
	maxFilterRules = 10000
)

// decode implements nodeDecoder.
func (f *RecordFilter) decode(p *sourceLines, path string, node *yaml.Node) {
	p.at[path] = p.here(node)
	whole := resolve(node)
	if isNull(whole) || whole.Kind == yaml.MappingNode && len(whole.Content) == 0 {
		*f = RecordFilter{}
		return
	}
	before := len(p.errors)
	p.filterRules = 0
	var rule filterRule
	if rule.decode(p, path, node); len(p.errors) == before {
		f.json = jsonText(rule)
	}
}

// filterRule is a filter, or a rule within one.
type filterRule struct {
	Field    string       `yaml:"field" json:"field,omitempty"`
	Operator string       `yaml:"operator" json:"operator"`
	Operand  operand      `yaml:"operand" json:"operand,omitzero"`
	Rules    []filterRule `yaml:"rules" json:"rules,omitempty"`
}

// decode implements nodeDecoder.
func (f *filterRule) decode(p *sourceLines, path string, node *yaml.Node) {
	switch p.filterRules++; {
	case p.filterRules == maxFilterRules+1:
		p.failNode(node, path, fmt.Sprintf("has too many rules; write at most %d", maxFilterRules))
		return
	case p.filterRules > maxFilterRules:
		return
	case strings.Count(path, "rules[") >= maxFilterDepth:
		p.failNode(node, path, fmt.Sprintf("rules nest deeper than %d; write fewer levels", maxFilterDepth))
		return
	}
	before := len(p.errors)
	if p.decodeBlock(path, node, reflect.ValueOf(f).Elem()); len(p.errors) == before {
		f.check(p, path)
	}
}

// check reports what the operator requires of the other keys.
func (f *filterRule) check(p *sourceLines, path string) {
	is := func(names []string) bool { return slices.Contains(names, f.Operator) }
	switch {
	case f.Operator == "":
		p.fail(path, "has no operator; write one of "+strings.Join(operators, ", "))
		return
	case !is(operators):
		p.fail(join(path, "operator"), fmt.Sprintf("%q is not one of %s", f.Operator, strings.Join(operators, ", ")))
		return
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
			p.fail(path, fmt.Sprintf("has no %s, which the operator %s needs", part.name, f.Operator))
		case !part.needed && part.has:
			p.fail(join(path, part.name), fmt.Sprintf("cannot be combined with the operator %s; leave it out", f.Operator))
		case part.name == "operand" && is(listed) && !f.Operand.isList:
			p.fail(join(path, part.name), "expected a list of at least one value between [ and ], found one value")
		case part.name == "operand" && is(comparisons) && f.Operand.isList:
			p.fail(join(path, part.name), "expected a value, found a list")
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
	p.at[path] = p.here(node)
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

// node returns the filter for Print.
func (f RecordFilter) node() (*yaml.Node, error) {
	var document yaml.Node
	if f.json == "" {
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	if err := yaml.Unmarshal([]byte(f.json), &document); err != nil {
		return nil, err
	}
	return document.Content[0], nil
}
