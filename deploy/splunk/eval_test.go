package splunk_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// fields are the fields of an event as Splunk extracts them: texts, of which some have
// several values.
type fields map[string][]string

// value is a result of an expression: nil, a string, a float64, a bool, or a []string of
// several values.
type value any

// expression is a compiled expression of a calculated field.
type expression func(fields) (value, error)

// compile parses the part of Splunk's eval language that the add-on uses. Anything else is
// an error.
func compile(text string) (expression, error) {
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	e, err := p.or()
	if err == nil && len(p.tokens) > 0 {
		err = fmt.Errorf("%q is left over", p.tokens)
	}
	return e, err
}

var token = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|'[^']+'|[0-9]+|[A-Za-z_][A-Za-z0-9_]*|==|!=|>=|<=|[<>().,+/])`)

func tokenize(text string) (all []string, err error) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		t := token.FindString(text)
		if t == "" {
			return nil, fmt.Errorf("not understood: %s", text)
		}
		all, text = append(all, t), text[len(t):]
	}
	return all, nil
}

type parser struct{ tokens []string }

func (p *parser) next() string {
	if len(p.tokens) == 0 {
		return ""
	}
	t := p.tokens[0]
	p.tokens = p.tokens[1:]
	return t
}

// accept removes the next token if it is one of those given, and returns it.
func (p *parser) accept(tokens ...string) string {
	if len(p.tokens) > 0 && slices.Contains(tokens, p.tokens[0]) {
		return p.next()
	}
	return ""
}

// binary parses operands that are joined by operators of one precedence.
func (p *parser) binary(operand func() (expression, error), apply func(operator string, a, b value) (value, error), operators ...string) (expression, error) {
	left, err := operand()
	for err == nil {
		operator := p.accept(operators...)
		if operator == "" {
			break
		}
		var right expression
		right, err = operand()
		a := left
		left = func(f fields) (value, error) {
			x, errX := a(f)
			y, errY := right(f)
			if err := errors.Join(errX, errY); err != nil {
				return nil, err
			}
			return apply(operator, x, y)
		}
	}
	return left, err
}

func (p *parser) or() (expression, error)  { return p.binary(p.and, logic, "OR") }
func (p *parser) and() (expression, error) { return p.binary(p.not, logic, "AND") }
func (p *parser) compare() (expression, error) {
	return p.binary(p.sum, compare, "==", "!=", ">=", "<=", ">", "<")
}
func (p *parser) sum() (expression, error)     { return p.binary(p.product, arithmetic, "+", ".") }
func (p *parser) product() (expression, error) { return p.binary(p.operand, arithmetic, "/") }

func (p *parser) not() (expression, error) {
	if p.accept("NOT") == "" {
		return p.compare()
	}
	e, err := p.not()
	return func(f fields) (value, error) {
		v, err := e(f)
		b, err := truth(v, err)
		return !b, err
	}, err
}

func (p *parser) operand() (expression, error) {
	t := p.next()
	switch {
	case t == "":
		return nil, errors.New("it ends too early")
	case t == "(":
		e, err := p.or()
		if err == nil && p.accept(")") == "" {
			err = errors.New("a parenthesis is not closed")
		}
		return e, err
	case t[0] == '"':
		text := unquote(t)
		return func(fields) (value, error) { return text, nil }, nil
	case t[0] == '\'':
		return field(t[1 : len(t)-1]), nil
	case t[0] >= '0' && t[0] <= '9':
		n, err := strconv.ParseFloat(t, 64)
		return func(fields) (value, error) { return n, nil }, err
	case !regexp.MustCompile(`^\w+$`).MatchString(t):
		return nil, fmt.Errorf("%s where a value is expected", t)
	case p.accept("(") == "":
		return field(t), nil
	}
	var arguments []expression
	for p.accept(")") == "" {
		if len(arguments) > 0 && p.accept(",") == "" {
			return nil, fmt.Errorf("the arguments of %s do not end", t)
		}
		e, err := p.or()
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, e)
	}
	return call(t, arguments)
}

// unquote returns the text of a literal. Splunk keeps a backslash except before a quote or
// another backslash.
func unquote(literal string) string {
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(literal[1 : len(literal)-1])
}

func field(name string) expression {
	return func(f fields) (value, error) {
		switch values := f[name]; len(values) {
		case 0:
			return nil, nil
		case 1:
			return values[0], nil
		default:
			return values, nil
		}
	}
}

// truth returns a condition's result, of which null is false.
func truth(v value, err error) (bool, error) {
	b, ok := v.(bool)
	if err == nil && !ok && v != nil {
		err = fmt.Errorf("%v is not a condition", v)
	}
	return b, err
}

func logic(operator string, a, b value) (value, error) {
	x, errX := truth(a, nil)
	y, errY := truth(b, nil)
	if operator == "AND" {
		return x && y, errors.Join(errX, errY)
	}
	return x || y, errors.Join(errX, errY)
}

// number returns the number that v is, or that its text shows.
func number(v value) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		n, err := strconv.ParseFloat(v, 64)
		return n, err == nil
	}
	return 0, false
}

// text returns v as a text.
func text(v value) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return "", fmt.Errorf("%v is not a text", v)
}

func compare(operator string, a, b value) (value, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	order := 0
	x, numberX := number(a)
	y, numberY := number(b)
	if numberX && numberY {
		switch {
		case x < y:
			order = -1
		case x > y:
			order = 1
		}
	} else {
		s, errS := text(a)
		t, errT := text(b)
		if err := errors.Join(errS, errT); err != nil {
			return nil, err
		}
		order = strings.Compare(s, t)
	}
	switch operator {
	case "==":
		return order == 0, nil
	case "!=":
		return order != 0, nil
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

func arithmetic(operator string, a, b value) (value, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	if operator == "." {
		s, errS := text(a)
		t, errT := text(b)
		return s + t, errors.Join(errS, errT)
	}
	x, okX := number(a)
	y, okY := number(b)
	switch {
	case !okX || !okY:
		return nil, fmt.Errorf("%v %s %v are not numbers", a, operator, b)
	case operator == "+":
		return x + y, nil
	case y == 0:
		return nil, nil
	}
	return x / y, nil
}

// call returns the call of a function.
func call(name string, arguments []expression) (expression, error) {
	if lazy := map[string]func([]expression, fields) (value, error){"case": callCase, "if": callIf, "coalesce": callCoalesce}[name]; lazy != nil {
		if name == "if" && len(arguments) != 3 || name == "case" && len(arguments)%2 != 0 || len(arguments) == 0 {
			return nil, fmt.Errorf("%s has %d arguments", name, len(arguments))
		}
		return func(f fields) (value, error) { return lazy(arguments, f) }, nil
	}
	if name == "mvfilter" && len(arguments) == 1 {
		return func(f fields) (value, error) { return filter(arguments[0], f) }, nil
	}
	if of := patternFunctions[name]; of != nil && len(arguments) == map[string]int{"match": 2, "like": 2, "replace": 3}[name] {
		return callPattern(of, arguments)
	}
	function, found := functions[name]
	if !found || len(arguments) != function.arguments {
		return nil, fmt.Errorf("function %s with %d arguments", name, len(arguments))
	}
	return func(f fields) (value, error) {
		values := make([]value, len(arguments))
		for i, a := range arguments {
			v, err := a(f)
			if err != nil {
				return nil, err
			}
			if v == nil && !function.nulls {
				return nil, nil
			}
			values[i] = v
		}
		v, err := function.of(values)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return v, err
	}, nil
}

func callCase(arguments []expression, f fields) (value, error) {
	for i := 0; i < len(arguments); i += 2 {
		v, err := arguments[i](f)
		if met, err := truth(v, err); err != nil {
			return nil, err
		} else if met {
			return arguments[i+1](f)
		}
	}
	return nil, nil
}

func callIf(arguments []expression, f fields) (value, error) {
	v, err := arguments[0](f)
	met, err := truth(v, err)
	switch {
	case err != nil:
		return nil, err
	case met:
		return arguments[1](f)
	}
	return arguments[2](f)
}

func callCoalesce(arguments []expression, f fields) (value, error) {
	for _, a := range arguments {
		if v, err := a(f); err != nil || v != nil {
			return v, err
		}
	}
	return nil, nil
}

// filter returns the values for which a condition on one field is met. The condition must
// not be met without the field.
func filter(condition expression, f fields) (value, error) {
	var met []string
	for name, values := range f {
		for _, v := range values {
			result, err := condition(fields{name: {v}})
			if ok, err := truth(result, err); err != nil {
				return nil, err
			} else if ok {
				met = append(met, v)
			}
		}
	}
	if len(met) == 0 {
		return nil, nil
	}
	return met, nil
}

// functions are the functions that evaluate all of their arguments. A null argument gives
// null, except to functions that handle it.
var functions = map[string]struct {
	arguments int
	nulls     bool
	of        func([]value) (value, error)
}{
	"true":      {0, false, func([]value) (value, error) { return true, nil }},
	"null":      {0, false, func([]value) (value, error) { return nil, nil }},
	"isnull":    {1, true, func(v []value) (value, error) { return v[0] == nil, nil }},
	"isnotnull": {1, true, func(v []value) (value, error) { return v[0] != nil, nil }},
	"lower":     {1, false, ofText(func(s string) value { return strings.ToLower(s) })},
	"upper":     {1, false, ofText(func(s string) value { return strings.ToUpper(s) })},
	"len":       {1, false, ofText(func(s string) value { return float64(utf8.RuneCountInString(s)) })},
	"tonumber": {1, false, func(v []value) (value, error) {
		if n, ok := number(v[0]); ok {
			return n, nil
		}
		return nil, nil
	}},
	"nullif": {2, true, func(v []value) (value, error) {
		if same, err := compare("==", first(v[0]), v[1]); err != nil || same == true {
			return nil, err
		}
		return v[0], nil
	}},
	"mvcount": {1, false, func(v []value) (value, error) {
		if all, several := v[0].([]string); several {
			return float64(len(all)), nil
		}
		return 1.0, nil
	}},
	"ltrim": {2, false, func(v []value) (value, error) {
		s, errS := text(v[0])
		cut, errCut := text(v[1])
		return strings.TrimLeft(s, cut), errors.Join(errS, errCut)
	}},
	"spath": {2, false, func(v []value) (value, error) {
		s, errS := text(v[0])
		path, errPath := text(v[1])
		if err := errors.Join(errS, errPath); err != nil {
			return nil, err
		}
		f, err := extractJSON([]byte(s), true)
		if err != nil {
			return nil, err
		}
		return field(path)(f)
	}},
}

// patternFunctions are the functions whose second argument is a pattern. A null first
// argument gives null.
var patternFunctions = map[string]func(pattern string, rest []value) (func(value) (value, error), error){
	"match": func(pattern string, _ []value) (func(value) (value, error), error) {
		r, err := regexp.Compile(pattern)
		return func(v value) (value, error) {
			if all, several := v.([]string); several {
				return slices.ContainsFunc(all, r.MatchString), nil
			}
			s, err := text(v)
			return r.MatchString(s), err
		}, err
	},
	"like": func(pattern string, _ []value) (func(value) (value, error), error) {
		r, err := regexp.Compile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), "%", ".*") + "$")
		return func(v value) (value, error) {
			s, err := text(v)
			return r.MatchString(s), err
		}, err
	},
	"replace": func(pattern string, rest []value) (func(value) (value, error), error) {
		by, err := text(rest[0])
		if err != nil {
			return nil, err
		}
		by = regexp.MustCompile(`\\(\d)`).ReplaceAllString(strings.ReplaceAll(by, "$", "$$"), "$${$1}")
		r, err := regexp.Compile(pattern)
		return func(v value) (value, error) {
			s, err := text(v)
			return r.ReplaceAllString(s, by), err
		}, err
	},
}

// callPattern compiles a pattern once: it must not depend on fields.
func callPattern(of func(string, []value) (func(value) (value, error), error), arguments []expression) (expression, error) {
	var constants []value
	for _, a := range arguments[1:] {
		v, err := a(nil)
		if err != nil {
			return nil, err
		}
		constants = append(constants, v)
	}
	pattern, err := text(constants[0])
	if err != nil {
		return nil, err
	}
	apply, err := of(pattern, constants[1:])
	if err != nil {
		return nil, err
	}
	return func(f fields) (value, error) {
		v, err := arguments[0](f)
		if v == nil || err != nil {
			return nil, err
		}
		return apply(v)
	}, nil
}

// first returns the first of several values.
func first(v value) value {
	if all, several := v.([]string); several {
		return all[0]
	}
	return v
}

func ofText(f func(string) value) func([]value) (value, error) {
	return func(v []value) (value, error) {
		s, err := text(v[0])
		return f(s), err
	}
}
