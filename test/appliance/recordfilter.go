package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// recordFilter is the filter of a record search.
type recordFilter struct {
	Field    string
	Operator string
	Operand  json.RawMessage
	Rules    []*recordFilter

	values  []any // of the operand
	pattern *regexp.Regexp
}

func parseRecordFilter(raw json.RawMessage) (*recordFilter, error) {
	f := new(recordFilter)
	if err := json.Unmarshal(raw, f); err != nil {
		return nil, errors.New("filter: wrong type")
	}
	return f, f.check()
}

func (f *recordFilter) check() error {
	switch f.Operator {
	case "and", "or", "not":
		if len(f.Rules) == 0 {
			return fmt.Errorf("filter: %s needs rules", f.Operator)
		}
		for _, rule := range f.Rules {
			if err := rule.check(); err != nil {
				return err
			}
		}
		return nil
	case "=", "!=", ">", "<", ">=", "<=", "~", "!~", "startswith", "in", "not_in", "exists", "not_exists":
	default:
		return fmt.Errorf("filter: the operator %q is unknown", f.Operator)
	}
	if f.Field == "" {
		return errors.New("filter: field is required")
	}
	operand := f.Operand
	var typed struct{ Value json.RawMessage }
	if json.Unmarshal(operand, &typed) == nil && typed.Value != nil {
		operand = typed.Value
	}
	if len(operand) > 0 && json.Unmarshal(operand, &f.values) != nil {
		var one any
		if err := json.Unmarshal(operand, &one); err != nil {
			return errors.New("filter: operand: wrong type")
		}
		f.values = []any{one}
	}
	if len(f.values) == 0 && !strings.HasSuffix(f.Operator, "exists") {
		return errors.New("filter: operand is required")
	}
	if strings.HasSuffix(f.Operator, "~") {
		var err error
		if f.pattern, err = regexp.Compile(fmt.Sprint(f.values[0])); err != nil {
			return errors.New("filter: operand is no regular expression")
		}
	}
	return nil
}

// matches says whether a record is one that the filter selects.
func (f *recordFilter) matches(r *Record) bool {
	var object struct {
		Source map[string]any `json:"_source"`
	}
	if err := json.Unmarshal(r.JSON, &object); err != nil {
		panic(err) // it was made here
	}
	return f.selects(object.Source)
}

func (f *recordFilter) selects(source map[string]any) bool {
	is := func(rule *recordFilter) bool { return rule.selects(source) }
	switch f.Operator {
	case "and":
		return !slices.ContainsFunc(f.Rules, func(rule *recordFilter) bool { return !is(rule) })
	case "or":
		return slices.ContainsFunc(f.Rules, is)
	case "not":
		return !slices.ContainsFunc(f.Rules, is)
	}
	found := valuesOf(source, f.Field)
	one := func(holds func(value any) bool) bool { return slices.ContainsFunc(found, holds) }
	equal := func(value any) bool {
		return slices.ContainsFunc(f.values, func(wanted any) bool { return fmt.Sprint(value) == fmt.Sprint(wanted) })
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
		return one(func(value any) bool { return strings.HasPrefix(fmt.Sprint(value), fmt.Sprint(f.values[0])) })
	case "~":
		return one(func(value any) bool { return f.pattern.MatchString(fmt.Sprint(value)) })
	case "!~":
		return !one(func(value any) bool { return f.pattern.MatchString(fmt.Sprint(value)) })
	}
	return one(func(value any) bool { return compares(value, f.Operator, f.values[0]) })
}

func compares(value any, operator string, wanted any) bool {
	a, ok := value.(float64)
	if !ok {
		return false
	}
	b, ok := wanted.(float64)
	if !ok {
		if _, err := fmt.Sscan(fmt.Sprint(wanted), &b); err != nil {
			return false
		}
	}
	switch operator {
	case ">":
		return a > b
	case "<":
		return a < b
	case ">=":
		return a >= b
	}
	return a <= b
}

// valuesOf returns what a field of a record holds: .ipaddr stands for all
// addresses, .port for all ports, .any for everything, and dots lead into
// objects.
func valuesOf(source map[string]any, field string) []any {
	var found []any
	add := func(value any) {
		if typed, ok := value.(map[string]any); ok && typed["value"] != nil {
			value = typed["value"]
		}
		if list, ok := value.([]any); ok {
			found = append(found, list...)
		} else if value != nil {
			found = append(found, value)
		}
	}
	if strings.HasPrefix(field, ".") {
		for name, value := range source {
			if field == ".any" || field == ".ipaddr" && strings.HasSuffix(name, "Addr") || field == ".port" && strings.HasSuffix(name, "Port") {
				add(value)
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
	add(at)
	return found
}
