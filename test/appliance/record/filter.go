package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"ndrbridge/test/appliance/expression"
)

// filter is the filter of a record search.
type filter struct {
	Field    string
	Operator string
	Operand  json.RawMessage
	Rules    []*filter

	operands []string        // the values of the operand, as text
	texts    map[string]bool // the operands
	numbers  map[string]bool // those that are numbers, in their plain form
	pattern  *regexp.Regexp
}

// parseFilter parses a filter that fits the description.
func parseFilter(raw json.RawMessage) (*filter, error) {
	if len(raw) > maxFilter {
		return nil, fmt.Errorf("filter: must have at most %d bytes", maxFilter)
	}
	f := new(filter)
	if err := json.Unmarshal(raw, f); err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	steps := 0
	return f, f.prepare(&steps)
}

// prepare decodes the operand of a filter and its rules, and adds the instructions of their
// regular expressions to steps.
func (f *filter) prepare(steps *int) error {
	for _, rule := range f.Rules {
		if err := rule.prepare(steps); err != nil {
			return err
		}
	}
	if len(f.Operand) == 0 {
		return nil
	}
	// The operand is a scalar, a list of scalars, or either in an object with its type.
	operand, err := decodeExactly(f.Operand)
	if err != nil {
		return fmt.Errorf("filter: operand: %w", err)
	}
	f.operands = leaves(nil, operand)
	f.texts, f.numbers = make(map[string]bool, len(f.operands)), make(map[string]bool)
	for _, operand := range f.operands {
		f.texts[operand] = true
		if n, ok := parseNumber(operand); ok {
			f.numbers[plain(n)] = true
		}
	}
	if strings.HasSuffix(f.Operator, "~") {
		compiled, n, err := expression.Compile(f.operands[0])
		if err != nil {
			return fmt.Errorf("filter: operand: %w", err)
		}
		if *steps += n; *steps > expression.MaxSteps {
			return errors.New("filter: its regular expressions are too complex")
		}
		f.pattern = compiled
	}
	return nil
}

// decodeExactly decodes JSON and keeps its numbers as written.
func decodeExactly(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return v, d.Decode(&v)
}

// leaves appends the text of every scalar in a value, except the type of a typed value.
func leaves(into []string, value any) []string {
	switch value := value.(type) {
	case nil:
	case []any:
		for _, element := range value {
			into = leaves(into, element)
		}
	case map[string]any:
		if inner, ok := value["value"]; ok {
			return leaves(into, inner)
		}
		for _, inner := range value {
			into = leaves(into, inner)
		}
	default:
		into = append(into, fmt.Sprint(value))
	}
	return into
}

// matches reports whether the filter selects a record.
func (f *filter) matches(r *Record) bool {
	record, err := decodeExactly(r.JSON)
	if err != nil {
		panic(err) // generated records are valid JSON
	}
	return f.selects(record.(map[string]any)["_source"].(map[string]any))
}

func (f *filter) selects(source map[string]any) bool {
	is := func(rule *filter) bool { return rule.selects(source) }
	switch f.Operator {
	case "and":
		return !slices.ContainsFunc(f.Rules, func(rule *filter) bool { return !is(rule) })
	case "or":
		return slices.ContainsFunc(f.Rules, is)
	case "not":
		return !slices.ContainsFunc(f.Rules, is)
	}
	found := valuesOf(source, f.Field)
	one := func(holds func(value string) bool) bool { return slices.ContainsFunc(found, holds) }
	equal := func(value string) bool {
		if f.texts[value] || len(f.numbers) == 0 {
			return f.texts[value]
		}
		n, ok := parseNumber(value)
		return ok && f.numbers[plain(n)]
	}
	switch f.Operator {
	case "exists":
		return len(found) > 0
	case "not_exists":
		return len(found) == 0
	case "=", "in":
		return one(equal)
	case "!=", "not_in":
		return !one(equal)
	case "startswith":
		return one(func(value string) bool { return strings.HasPrefix(value, f.operands[0]) })
	case "~":
		return one(f.pattern.MatchString)
	case "!~":
		return !one(f.pattern.MatchString)
	}
	return one(func(value string) bool {
		order, ok := compareNumbers(value, f.operands[0])
		switch f.Operator {
		case ">":
			return ok && order > 0
		case "<":
			return ok && order < 0
		case ">=":
			return ok && order >= 0
		}
		return ok && order <= 0
	})
}

// compareNumbers compares two texts as numbers, 64-bit integers exactly. It returns false
// if one of them is not a number.
func compareNumbers(a, b string) (order int, ok bool) {
	x, isNumber := parseNumber(a)
	y, areNumbers := parseNumber(b)
	if !isNumber || !areNumbers {
		return 0, false
	}
	return x.Cmp(y), true
}

func parseNumber(text string) (n *big.Float, ok bool) {
	const bits = 128
	n, _, err := big.ParseFloat(text, 10, bits, big.ToNearestEven)
	return n, err == nil
}

// plain returns a text that equal numbers share.
func plain(n *big.Float) string {
	if n.Sign() == 0 {
		return "0" // without a sign
	}
	return n.Text('p', 0)
}

// valuesOf returns the values of a field of a record: .ipaddr selects all addresses, .port
// all ports, .any all values, and dots separate the names of nested fields.
func valuesOf(source map[string]any, field string) []string {
	var found []string
	switch field {
	case ".any":
		return leaves(nil, source)
	case ".ipaddr", ".port":
		ending := map[string]string{".ipaddr": "Addr", ".port": "Port"}[field]
		for name, value := range source {
			if strings.HasSuffix(name, ending) {
				found = leaves(found, value)
			}
		}
		return found
	}
	var at any = source
	for name := range strings.SplitSeq(field, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[name]
	}
	return leaves(nil, at)
}
