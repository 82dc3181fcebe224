package match

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"ndrbridge/internal/similar"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/operators"
)

// explain returns an error for the errors of an expression, worded for the author of
// the expression. missing are the fields that the type checker did not find, in the order
// of its errors about them.
func explain(expression string, issues []*common.Error, missing []missingField) error {
	if strings.TrimSpace(expression) == "" {
		return errors.New("the expression is empty")
	}
	lines := strings.Split(expression, "\n")
	listed := make(map[string]bool) // kinds of objects whose fields were listed
	var errs []error
	for _, m := range issues {
		before, rest := splitAt(lines, m.Location)
		reason, isSyntax := strings.CutPrefix(m.Message, "Syntax error: ")
		if isSyntax {
			reason = explainSyntax(before, rest, reason)
		} else if len(missing) > 0 && reason == undefinedField(missing[0].name) {
			reason = explainField(missing[0], !listed[missing[0].of.name])
			listed[missing[0].of.name], missing = true, missing[1:]
		} else {
			reason = explainMeaning(rest, reason)
		}
		errs = append(errs, fmt.Errorf("%s: %s", position(lines, m.Location), reason))
		// The errors after these are mostly consequences.
		if isSyntax || strings.HasPrefix(rest, "(") {
			break
		}
	}
	return errors.Join(errs...)
}

// position formats a position in an expression.
func position(lines []string, at common.Location) string {
	before, rest := splitAt(lines, at)
	text := fmt.Sprintf("column %d", len([]rune(before))+1)
	if len(lines) > 1 {
		text = fmt.Sprintf("line %d, %s", at.Line(), text)
	}
	if rest != "" {
		text += fmt.Sprintf(", at %q", excerpt(rest))
	}
	return text
}

// splitAt returns the line of a position, split there.
func splitAt(lines []string, at common.Location) (before, rest string) {
	if at.Line() < 1 || at.Line() > len(lines) {
		return "", ""
	}
	line := []rune(lines[at.Line()-1])
	column := min(max(at.Column(), 0), len(line))
	return string(line[:column]), string(line[column:])
}

// excerpt returns the beginning of the text at an error.
func excerpt(rest string) string {
	const maxLength = 20
	if runes := []rune(rest); len(runes) > maxLength {
		return string(runes[:maxLength]) + "…"
	}
	return rest
}

// slip is a common mistake, often the syntax of another language, with patterns for the
// text before and at the position where the parser stops.
type slip struct {
	before, at *regexp.Regexp
	hint       string
}

var slips = []slip{
	{nil, regexp.MustCompile(`^=>`), "use >= for greater or equal"},
	{nil, regexp.MustCompile(`^=`), "use == to compare"},
	{nil, regexp.MustCompile(`^&`), "use && for and"},
	{nil, regexp.MustCompile(`^\|`), "use || for or"},
	{nil, regexp.MustCompile(`(?i)^and\b`), "use && for and"},
	{nil, regexp.MustCompile(`(?i)^or\b`), "use || for or"},
	{nil, regexp.MustCompile(`(?i)^not\b`), "use ! for not"},
	{regexp.MustCompile(`(?i)\bnot\s*$`), nil, "use ! for not"},
	{regexp.MustCompile(`<$`), regexp.MustCompile(`^>`), "use != for not equal"},
	{regexp.MustCompile(`\bin\s*\([^()]*$`), regexp.MustCompile(`^,`), `write a list in brackets: in ["a", "b"]`},
	{nil, regexp.MustCompile(`(?i)^(like|contains|matches|startswith|endswith)\b`), `use a function call: detection.title.contains("DNS"), or startsWith, endsWith, matches`},
	{nil, regexp.MustCompile(`^[“”„‘’]`), `use straight quotes: "`},
	{nil, regexp.MustCompile(`^["']`), "the string has no closing quote, or an operator is missing before it"},
}

func explainSyntax(before, rest, reason string) string {
	for _, s := range slips {
		if (s.before == nil || s.before.MatchString(before)) && (s.at == nil || s.at.MatchString(rest)) {
			return s.hint
		}
	}
	if rest == "" {
		if strings.Count(before, "(") > strings.Count(before, ")") {
			return "the expression ends too early: a closing bracket is missing"
		}
		return "the expression ends too early"
	}
	// Omit the parser's long list of expected tokens.
	reason, _, _ = strings.Cut(reason, " expecting ")
	return reason
}

var (
	unknownName = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	noFields    = regexp.MustCompile(`^type '([^']*)' does not support field selection$`)
	noBool      = regexp.MustCompile(`^expected type 'bool' but found '([^']*)'$`)
	noRange     = regexp.MustCompile(`^expression of type '([^']*)' cannot be range of a comprehension`)
)

// functions are CEL's functions that are useful here, for suggestions.
var functions = []string{"startsWith", "endsWith", "contains", "matches", "size", "has", "exists", "all",
	"exists_one", "filter", "map", "int", "uint", "double", "string", "timestamp", "duration", "type"}

// undefinedField returns the type checker's error about a missing field.
func undefinedField(name string) string { return "undefined field '" + name + "'" }

// explainField explains that a field is not documented. With list, it lists those that are.
func explainField(f missingField, list bool) string {
	names := f.of.names()
	near := similar.Nearest(f.name, names)
	if f.of.name == eventKind.name {
		if near != "" {
			return fmt.Sprintf("event has no attribute %s; did you mean event.%s?", f.name, near)
		}
		return fmt.Sprintf("event has no attribute %s; it has %s", f.name, strings.Join(names, ", "))
	}
	reason := fmt.Sprintf("%s has no documented field %s", f.of.noun, f.name)
	if near != "" {
		reason += fmt.Sprintf("; did you mean %s?", near)
	}
	if list {
		reason += fmt.Sprintf(` (documented: %s; write ["%s"] instead of .%s for a field that only your appliance has)`, strings.Join(names, ", "), f.name, f.name)
	}
	return reason
}

func explainMeaning(rest, reason string) string {
	if parts := unknownName.FindStringSubmatch(reason); parts != nil {
		return explainName(parts[1], rest)
	}
	if reason == "invalid matches argument" {
		return "not a regular expression of RE2: check its brackets; lookarounds and back references are not supported"
	}
	if parts := noOverload.FindStringSubmatch(reason); parts != nil {
		return explainTypes(parts[1], parts[2])
	}
	if parts := noFields.FindStringSubmatch(reason); parts != nil {
		if strings.HasPrefix(parts[1], "list(") {
			return errListHasNoFields.Error()
		}
		return fmt.Sprintf("%s has no fields", typeNoun(parts[1]))
	}
	if parts := noBool.FindStringSubmatch(reason); parts != nil {
		return fmt.Sprintf("expected true or false, but this is %s: compare it with something", typeNoun(parts[1]))
	}
	if parts := noRange.FindStringSubmatch(reason); parts != nil {
		return fmt.Sprintf("a loop needs a list or an object with names of any kind, not %s; dyn(…) loops over the names of its fields", typeNoun(parts[1]))
	}
	return reason
}

// explainTypes explains that a function or operator is not defined for operands of these
// types, which are in parentheses.
func explainTypes(function, operands string) string {
	name := function
	if operator, ok := operators.FindReverse(name); ok && operator != "" {
		name = operator
	}
	reason := fmt.Sprintf("%s cannot be applied to %s", name, operands)
	switch {
	case function == operators.In && operands == "(string, string)":
		return reason + `: for a part of a text, use detection.title.contains("DNS")`
	case operands == "(list(string), string)":
		return reason + `: for an element of a list, write "sec" in detection.categories`
	case strings.HasSuffix(operands, ", timestamp)") && strings.HasPrefix(operands, "(int, "):
		return reason + ": the appliance's times are milliseconds since the epoch; compare event.time, or a number"
	case numberAndText.MatchString(operands):
		return reason + ": a number is written without quotes, a text with quotes"
	}
	return reason
}

var numberAndText = regexp.MustCompile(`^\(((int|uint|double), (list\()?string\)?|string, (list\()?(int|uint|double)\)?)\)$`)

// typeNoun returns the noun for a type of CEL.
func typeNoun(name string) string {
	if d, found := kinds[name]; found {
		return d.noun
	}
	switch name {
	case "string":
		return "a text"
	case "int", "uint", "double":
		return "a number"
	case "bool":
		return "true or false"
	}
	return "a value of type " + name
}

// explainName explains that a name is unknown. rest is the expression from the name on, or
// from the bracket behind the name if it is called as a function.
func explainName(name, rest string) string {
	if strings.HasPrefix(rest, "(") {
		if strings.EqualFold(name, "not") {
			return "use ! for not"
		}
		if near := similar.Nearest(name, functions); near != "" {
			return fmt.Sprintf("unknown function %s; did you mean %s?", name, near)
		}
		return fmt.Sprintf("unknown function %s; functions of a text are contains, startsWith, endsWith and matches", name)
	}
	variables := variableNames()
	if found := owners(name); len(found) > 0 {
		return fmt.Sprintf("unknown name %s; names begin with %s: did you mean %s?", name, strings.Join(variables, ", "), strings.Join(found, " or "))
	}
	if strings.EqualFold(name, "severity") {
		return fmt.Sprintf("unknown name %s; did you mean event.severitytext (%s) or detection.risk_score?", name, vocabularies["event.severitytext"])
	}
	if near := similar.Nearest(name, variables); near != "" {
		if after := strings.TrimPrefix(rest, name); strings.HasPrefix(after, ".") || strings.HasPrefix(after, "[") {
			return fmt.Sprintf("unknown name %s; did you mean %s?", name, near)
		}
		return fmt.Sprintf("unknown name %s; write a text with quotes, as in %q; or did you mean %s?", name, name, near)
	}
	var fields []string
	for _, variable := range variables {
		fields = append(fields, variableKinds[variable].names()...)
	}
	if near := similar.Nearest(name, fields); near != "" {
		return fmt.Sprintf("unknown name %s; names begin with %s: did you mean %s?", name, strings.Join(variables, ", "), strings.Join(owners(near), " or "))
	}
	return fmt.Sprintf("unknown name %s; names begin with %s, as in detection.risk_score; a text is written with quotes", name, strings.Join(variables, ", "))
}
