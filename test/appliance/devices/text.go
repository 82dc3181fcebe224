package devices

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"ndrbridge/test/appliance/expression"
)

// textCondition compares a field of texts.
func (p *parser) textCondition(f field, operator string, operand any) (*Filter, error) {
	pattern, ok, err := p.expression(f, operator, operand)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return some(f, pattern.MatchString), nil
	}
	if object, ok := operand.(map[string]any); ok {
		operand = object["value"] // is_regex is false
	}
	if operator == "in" {
		return inCondition(f, operand)
	}
	text, ok := operand.(string)
	if !ok {
		return nil, errors.New("operand: must be a text")
	}
	plain := f.plain(text)
	switch operator {
	case "=":
		same, err := f.equal(text)
		if err != nil {
			return nil, err
		}
		return some(f, same), nil
	case "startswith":
		return some(f, func(value string) bool { return strings.HasPrefix(f.plain(value), plain) }), nil
	case "~":
		return some(f, func(value string) bool { return strings.Contains(f.plain(value), plain) }), nil
	}
	holds, ok := ordered(operator, plain)
	if !ok || f.kind == addresses {
		return nil, unfit(operator, f.name)
	}
	return some(f, func(value string) bool { return holds(f.plain(value)) }), nil
}

// inCondition selects the devices of which a value is in a list.
func inCondition(f field, operand any) (*Filter, error) {
	list, ok := operand.([]any)
	if !ok {
		return nil, errors.New("operand: in requires a list")
	}
	wanted := make(map[string]bool, len(list))
	for _, value := range list {
		text, ok := value.(string)
		if !ok {
			return nil, errors.New("operand: must contain texts")
		}
		if f.kind == addresses && strings.Contains(text, "/") {
			return nil, errors.New("operand: must contain addresses, no blocks of them")
		}
		if _, err := f.equal(text); err != nil {
			return nil, err
		}
		wanted[f.plain(text)] = true
	}
	return some(f, func(value string) bool { return wanted[f.plain(value)] }), nil
}

// expression returns the regular expression of an operand, if it is one.
func (p *parser) expression(f field, operator string, operand any) (*regexp.Regexp, bool, error) {
	object, ok := operand.(map[string]any)
	if !ok {
		return nil, false, nil
	}
	value, isText := object["value"].(string)
	switch {
	case !isText:
		return nil, false, errors.New("operand: must have a value")
	case object["is_regex"] != true:
		return nil, false, nil
	case f.kind != expressions:
		return nil, false, fmt.Errorf("operand: %s cannot be matched by a regular expression", f.name)
	case operator != "=" && operator != "~":
		return nil, false, fmt.Errorf("operator: %s cannot be used with a regular expression", operator)
	}
	compiled, steps, err := expression.Compile(value)
	if err != nil {
		return nil, false, fmt.Errorf("operand: %w", err)
	}
	if p.steps += steps; p.steps > expression.MaxSteps {
		return nil, false, errors.New("operand: the regular expressions of the filter are too complex")
	}
	return compiled, true, nil
}

// plain returns the form of a value in which it is compared.
func (f field) plain(value string) string {
	switch f.kind {
	case hardware:
		value = strings.NewReplacer(":", "", "-", "", ".", "").Replace(value)
	case addresses:
		if address, err := netip.ParseAddr(value); err == nil {
			return address.String()
		}
	}
	return strings.ToLower(value)
}

// equal returns the condition that a value is an operand.
func (f field) equal(operand string) (func(string) bool, error) {
	if f.kind == addresses {
		return within(operand)
	}
	if len(f.enum) > 0 && !f.enum[strings.ToLower(operand)] {
		return nil, fmt.Errorf("operand: %q is not possible for %s", operand, f.name)
	}
	plain := f.plain(operand)
	return func(value string) bool { return f.plain(value) == plain }, nil
}

// within returns the condition that an address is another or in a block of addresses.
func within(operand string) (func(string) bool, error) {
	if block, err := netip.ParsePrefix(operand); err == nil {
		return func(value string) bool {
			address, err := netip.ParseAddr(value)
			return err == nil && block.Contains(address)
		}, nil
	}
	wanted, err := netip.ParseAddr(operand)
	if err != nil {
		return nil, fmt.Errorf("operand: %q is not an address", operand)
	}
	return func(value string) bool {
		address, err := netip.ParseAddr(value)
		return err == nil && address == wanted
	}, nil
}
