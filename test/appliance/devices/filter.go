package devices

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The size of filters.
const (
	maxRules = 1000
	maxDepth = 16
)

// Filter selects devices. It is immutable.
type Filter struct {
	matches func(*Device) bool
	// ids are the only devices that the filter may match; nil: any.
	ids map[int64]bool
}

// Matches reports whether the filter selects a device.
func (f *Filter) Matches(d *Device) bool { return f.matches(d) }

// IDs returns the ids of the only devices that the filter may match, sorted; false: it may match
// any.
func (f *Filter) IDs() ([]int64, bool) {
	if f.ids == nil {
		return nil, false
	}
	ids := make([]int64, 0, len(f.ids))
	for id := range f.ids {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, true
}

// parser parses a filter.
type parser struct {
	now   int64
	rules int
	steps int // of all regular expressions
}

// ParseFilter parses the filter of a search or of a group: an object of JSON, whose numbers are
// json.Number or float64. now is the time at which devices are active or not. An error begins with
// the path of the part that is wrong, below "filter".
func ParseFilter(value any, now int64) (*Filter, error) {
	p := &parser{now: now}
	return p.parse(value, "filter", 1)
}

func (p *parser) parse(value any, where string, depth int) (*Filter, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: must be an object", where)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("filter: is nested more than %d deep", maxDepth)
	}
	operator, _ := object["operator"].(string)
	switch operator {
	case "and", "or", "not":
		return p.combine(object, operator, where, depth)
	}
	if object["rules"] != nil {
		return nil, fmt.Errorf("%s.operator: must be and, or or not with rules", where)
	}
	name, _ := object["field"].(string)
	f, err := p.condition(name, operator, object["operand"])
	if err != nil {
		return nil, fmt.Errorf("%s.%w", where, err)
	}
	return f, nil
}

// combine parses a filter with rules.
func (p *parser) combine(object map[string]any, operator, where string, depth int) (*Filter, error) {
	values, _ := object["rules"].([]any)
	if len(values) == 0 {
		return nil, fmt.Errorf("%s.rules: %s requires some", where, operator)
	}
	if object["field"] != nil || object["operand"] != nil {
		return nil, fmt.Errorf("%s: %s has rules, no field and no operand", where, operator)
	}
	if p.rules += len(values); p.rules > maxRules {
		return nil, fmt.Errorf("filter: has more than %d rules", maxRules)
	}
	rules := make([]*Filter, len(values))
	for i, value := range values {
		rule, err := p.parse(value, fmt.Sprintf("%s.rules.%d", where, i), depth+1)
		if err != nil {
			return nil, err
		}
		rules[i] = rule
	}
	some := func(d *Device) bool {
		return slices.ContainsFunc(rules, func(rule *Filter) bool { return rule.matches(d) })
	}
	switch operator {
	case "or":
		return &Filter{matches: some}, nil
	case "not":
		return not(&Filter{matches: some}), nil
	}
	all := &Filter{matches: func(d *Device) bool {
		return !slices.ContainsFunc(rules, func(rule *Filter) bool { return !rule.matches(d) })
	}}
	for _, rule := range rules {
		if rule.ids != nil {
			all.ids = rule.ids
		}
	}
	return all, nil
}

func not(f *Filter) *Filter {
	return &Filter{matches: func(d *Device) bool { return !f.matches(d) }}
}

// condition parses a filter without rules. Its error begins with the name of the part that is
// wrong.
func (p *parser) condition(name, operator string, operand any) (*Filter, error) {
	f, ok := fieldOf(name)
	if !ok {
		return nil, fmt.Errorf("field: %q is unknown", name)
	}
	if positive, ok := map[string]string{"!=": "=", "!~": "~", "not_in": "in", "not_exists": "exists"}[operator]; ok {
		opposite, err := p.condition(name, positive, operand)
		if err != nil {
			return nil, err
		}
		return not(opposite), nil
	}
	if operator == "exists" {
		return &Filter{matches: func(d *Device) bool { return f.exists(d) }}, nil
	}
	if operand == nil {
		return nil, fmt.Errorf("operand: %s requires one", operator)
	}
	switch f.kind {
	case numbers:
		return numberCondition(f, operator, operand)
	case flag:
		return p.flagCondition(f, operator, operand)
	case times:
		return timeCondition(operator, operand)
	}
	return p.textCondition(f, operator, operand)
}

func unfit(operator, name string) error {
	return fmt.Errorf("operator: %s cannot be used with %s", operator, name)
}

// numberCondition compares a field with whole numbers.
func numberCondition(f field, operator string, operand any) (*Filter, error) {
	wanted := make(map[int64]bool)
	if operator == "in" {
		list, ok := operand.([]any)
		if !ok {
			return nil, errors.New("operand: in requires a list")
		}
		for _, value := range list {
			n, ok := whole(value)
			if !ok {
				return nil, errors.New("operand: must contain whole numbers")
			}
			wanted[n] = true
		}
	} else {
		n, ok := whole(operand)
		if !ok {
			return nil, errors.New("operand: must be a whole number")
		}
		wanted[n] = true
		if operator != "=" {
			holds, ok := ordered[int64](operator, n)
			if !ok {
				return nil, unfit(operator, f.name)
			}
			return &Filter{matches: func(d *Device) bool { return holds(f.number(d)) }}, nil
		}
	}
	made := &Filter{matches: func(d *Device) bool { return wanted[f.number(d)] }}
	if f.name == "id" {
		made.ids = wanted
	}
	return made, nil
}

func (p *parser) flagCondition(f field, operator string, operand any) (*Filter, error) {
	wanted, ok := operand.(bool)
	switch {
	case operator != "=":
		return nil, unfit(operator, f.name)
	case !ok:
		return nil, errors.New("operand: must be true or false")
	}
	now := p.now
	return &Filter{matches: func(d *Device) bool { return f.flag(d, now) == wanted }}, nil
}

func timeCondition(operator string, operand any) (*Filter, error) {
	if operator != "=" {
		return nil, unfit(operator, "discover_time")
	}
	between, _ := operand.(map[string]any)
	from, hasFrom := whole(between["from"])
	until, hasUntil := whole(between["until"])
	if !hasFrom || !hasUntil {
		return nil, errors.New("operand: must have from and until")
	}
	return discovered(from, until), nil
}

// discovered selects the devices that were discovered in a range of time.
func discovered(from, until int64) *Filter {
	return &Filter{matches: func(d *Device) bool { return from <= d.Discovered && d.Discovered <= until }}
}

// ordered returns the comparison with a value, if the operator is one.
func ordered[T int64 | string](operator string, than T) (func(T) bool, bool) {
	switch operator {
	case ">":
		return func(v T) bool { return v > than }, true
	case "<":
		return func(v T) bool { return v < than }, true
	case ">=":
		return func(v T) bool { return v >= than }, true
	case "<=":
		return func(v T) bool { return v <= than }, true
	}
	return nil, false
}

// some selects the devices of which a value holds.
func some(f field, holds func(string) bool) *Filter {
	return &Filter{matches: func(d *Device) bool { return slices.ContainsFunc(f.texts(d), holds) }}
}

// contains returns the condition that a text contains another, which is in lower case.
func contains(part string) func(string) bool {
	return func(value string) bool { return strings.Contains(strings.ToLower(value), part) }
}
