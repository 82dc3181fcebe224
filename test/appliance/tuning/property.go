package tuning

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"ndrbridge/test/appliance/expression"
	"ndrbridge/test/appliance/resource"
)

// property is a criterion for a property of detections.
type property struct {
	name    string
	negated bool
	test    func(value any) bool
}

// matches reports whether a detection with some properties matches.
func (p property) matches(properties map[string]any) bool {
	values := valuesOf(properties[p.name])
	return len(values) > 0 && slices.ContainsFunc(values, p.test) != p.negated
}

// valuesOf returns the strings, numbers and booleans of a property.
func valuesOf(value any) []any {
	switch value := value.(type) {
	case nil:
		return nil
	case []any:
		var all []any
		for _, element := range value {
			all = append(all, valuesOf(element)...)
		}
		return all
	case map[string]any:
		return valuesOf(value["value"]) // as in {"type": "ipaddr", "value": [...]}
	}
	return []any{value}
}

func compileProperty(value any) (property, error) {
	filter, _ := value.(resource.Object)
	operator, negated := strings.CutPrefix(resource.Text(filter, "operator"), "!")
	p := property{name: resource.Text(filter, "property"), negated: negated}
	operand, isRegex, caseSensitive := filter["operand"], false, true
	if object, ok := operand.(resource.Object); ok {
		operand, isRegex, caseSensitive = object["value"], object["is_regex"] == true, object["case_sensitive"] != false
	}
	list, isList := operand.([]any)
	switch {
	case isRegex && operator == "in":
		return p, errors.New("operand.is_regex: not possible with the operator in")
	case isList && operator != "in":
		return p, errors.New("operand.value: a list is only possible with the operator in")
	case isRegex:
		matches, err := compileRegexp(operand, operator == "=", caseSensitive)
		p.test = matches
		return p, err
	case operator == "=":
		p.test = equals(operand, caseSensitive)
	case operator == "~":
		part := fold(textOf(operand), caseSensitive)
		p.test = func(value any) bool { return strings.Contains(fold(textOf(value), caseSensitive), part) }
	default: // in
		if !isList {
			list = []any{operand}
		}
		p.test = oneOf(list, caseSensitive)
	}
	return p, nil
}

func compileRegexp(operand any, whole, caseSensitive bool) (func(any) bool, error) {
	text, ok := operand.(string)
	if !ok {
		return nil, errors.New("operand.value: a regular expression is a string")
	}
	// It must not end the group around it.
	if _, _, err := expression.Compile(text); err != nil {
		return nil, fmt.Errorf("operand.value: %w", err)
	}
	if whole {
		text = `^(?:` + text + `)$`
	}
	if !caseSensitive {
		text = `(?i)` + text
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("operand.value: %w", err)
	}
	return func(value any) bool { return compiled.MatchString(textOf(value)) }, nil
}

// equals returns a function that compares with a string or a number.
func equals(operand any, caseSensitive bool) func(any) bool {
	if number, ok := operand.(json.Number); ok {
		if want, err := number.Float64(); err == nil {
			return func(value any) bool {
				has, err := json.Number(textOf(value)).Float64()
				return err == nil && has == want
			}
		}
	}
	want := fold(textOf(operand), caseSensitive)
	return func(value any) bool { return fold(textOf(value), caseSensitive) == want }
}

// oneOf returns a function that reports whether a value is in a list, or an address in one of
// its CIDR blocks.
func oneOf(list []any, caseSensitive bool) func(any) bool {
	var tests []func(any) bool
	for _, element := range list {
		tests = append(tests, equals(element, caseSensitive))
		if block, ok := parseBlock(textOf(element)); ok {
			tests = append(tests, func(value any) bool {
				address, err := netip.ParseAddr(textOf(value))
				return err == nil && block.Contains(address.Unmap())
			})
		}
	}
	return func(value any) bool {
		return slices.ContainsFunc(tests, func(matches func(any) bool) bool { return matches(value) })
	}
}

// textOf returns a string, a number or a boolean as text.
func textOf(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return fmt.Sprint(value)
}

func fold(text string, caseSensitive bool) string {
	if caseSensitive {
		return text
	}
	return strings.ToLower(text)
}
