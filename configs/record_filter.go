package configs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	var p sourceLines
	f.decode(&p, "", document.Content[0])
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

// decode reads the filter from the node of the key at path. It records errors in p.
func (f *RecordFilter) decode(p *sourceLines, path string, node *yaml.Node) {
	whole := resolve(node)
	if isNull(whole) || whole.Kind == yaml.MappingNode && len(whole.Content) == 0 {
		*f = RecordFilter{}
		return
	}
	before := len(p.errors)
	d := filterDecoder{sourceLines: p}
	if decoded := d.filter(path, node, 1); len(p.errors) == before {
		f.json = jsonText(decoded)
	}
}

// filterObject is the JSON of a filter.
type filterObject struct {
	Field    string         `json:"field,omitempty"`
	Operator string         `json:"operator"`
	Operand  any            `json:"operand,omitempty"`
	Rules    []filterObject `json:"rules,omitempty"`
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

// filterDecoder decodes a filter and records the mistakes in it.
type filterDecoder struct {
	*sourceLines
	rules int // so far, the whole filter included
}

func (d *filterDecoder) wrong(node *yaml.Node, path, format string, args ...any) {
	d.failNode(node, path, fmt.Sprintf(format, args...))
}

// members returns the values of a mapping by their keys, which must be in known.
func (d *filterDecoder) members(path string, node *yaml.Node, known ...string) map[string]*yaml.Node {
	found := make(map[string]*yaml.Node)
	d.pairs(path, node.Content, func(path string, key, value *yaml.Node) {
		if slices.Contains(known, key.Value) {
			found[key.Value] = value
		} else {
			d.wrong(key, path, "is not one of %s%s", strings.Join(known, ", "), suggest(key.Value, known))
		}
	})
	return found
}

func (d *filterDecoder) filter(path string, node *yaml.Node, depth int) (f filterObject) {
	at := node
	node = resolve(node)
	d.rules++
	switch {
	case d.rules > maxFilterRules:
		if d.rules == maxFilterRules+1 {
			d.wrong(at, path, "has too many rules; write at most %d", maxFilterRules)
		}
		return f
	case node.Kind != yaml.MappingNode:
		d.wrong(at, path, "expected field, operator and operand, or operator and rules, found %s", found(node))
		return f
	case depth > maxFilterDepth:
		d.wrong(at, path, "rules nest deeper than %d; write fewer levels", maxFilterDepth)
		return f
	}
	parts := d.members(path, node, "field", "operator", "operand", "rules")
	operator := parts["operator"]
	if operator == nil {
		d.wrong(at, path, "has no operator; write one of %s", strings.Join(operators, ", "))
		return f
	}
	f.Operator = resolve(operator).Value
	switch {
	case f.Operator == "":
		d.wrong(operator, join(path, "operator"), "expected one of %s, found %s", strings.Join(operators, ", "), found(resolve(operator)))
		return f
	case !slices.Contains(operators, f.Operator):
		d.wrong(operator, join(path, "operator"), "%q is not one of %s", f.Operator, strings.Join(operators, ", "))
		return f
	}
	is := func(names []string) bool { return slices.Contains(names, f.Operator) }
	want := func(name string, wanted bool) {
		switch n := parts[name]; {
		case wanted && n == nil:
			d.wrong(at, path, "has no %s, which the operator %s needs", name, f.Operator)
		case !wanted && n != nil:
			d.wrong(n, join(path, name), "cannot be combined with the operator %s; leave it out", f.Operator)
		}
	}
	want("field", !is(logical))
	want("operand", is(comparisons) || is(listed))
	want("rules", is(logical))
	if n := parts["field"]; n != nil {
		f.Field = d.text(join(path, "field"), n)
	}
	if n := parts["operand"]; n != nil {
		f.Operand = d.operand(join(path, "operand"), n, is(listed))
	}
	if n := parts["rules"]; n != nil {
		path := join(path, "rules")
		if list := resolve(n); list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
			d.wrong(n, path, "expected a list of at least one filter")
		} else {
			for i, rule := range list.Content {
				f.Rules = append(f.Rules, d.filter(item(path, i), rule, depth+1))
			}
		}
	}
	return f
}

// operand returns an operand, which is a value or an object with type and value. If several
// is set, as for in and not_in, the value must be a list.
func (d *filterDecoder) operand(path string, node *yaml.Node, several bool) any {
	value := d.value
	if several {
		value = d.values
	}
	typed := resolve(node)
	if typed.Kind != yaml.MappingNode {
		return value(path, node)
	}
	parts := d.members(path, typed, "type", "value")
	for _, name := range []string{"type", "value"} {
		if parts[name] == nil {
			d.wrong(node, path, "has no %s; write {type: …, value: …}, or only the value", name)
			return nil
		}
	}
	return struct {
		Type  string `json:"type"`
		Value any    `json:"value"`
	}{d.text(join(path, "type"), parts["type"]), value(join(path, "value"), parts["value"])}
}

func (d *filterDecoder) values(path string, node *yaml.Node) any {
	list := resolve(node)
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		d.wrong(node, path, "expected a list of at least one value between [ and ], found %s", found(list))
		return nil
	}
	values := make([]any, len(list.Content))
	for i, one := range list.Content {
		values[i] = d.value(item(path, i), one)
	}
	return values
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// value returns a scalar as it is written in the file.
func (d *filterDecoder) value(path string, node *yaml.Node) any {
	value := resolve(node)
	tag := value.ShortTag()
	switch {
	case value.Kind != yaml.ScalarNode || !slices.Contains(scalarTags, tag):
		d.wrong(node, path, "expected a value, found %s", found(value))
	case value.Style == 0 && jsonNumber.MatchString(value.Value), tag == "!!bool" && (value.Value == "true" || value.Value == "false"):
		return json.RawMessage(value.Value)
	case tag == "!!str" || tag == "!!timestamp":
		return value.Value
	default:
		d.wrong(node, path, "%q cannot be written in JSON; write true, false, a plain number, or put it in quotes", value.Value)
	}
	return nil
}

func (d *filterDecoder) text(path string, node *yaml.Node) string {
	value := resolve(node)
	switch {
	case value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str":
		d.wrong(node, path, "expected text, found %s", found(value))
	case value.Value == "":
		d.wrong(node, path, "is empty")
	}
	return value.Value
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
