package match

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/operators"
)

// explain returns an error for the errors of an expression, worded for the author of
// the expression.
func explain(expression string, issues []*common.Error) error {
	if strings.TrimSpace(expression) == "" {
		return errors.New("the expression is empty")
	}
	lines := strings.Split(expression, "\n")
	var errs []error
	for _, m := range issues {
		before, rest := splitAt(lines, m.Location)
		reason, isSyntax := strings.CutPrefix(m.Message, "Syntax error: ")
		if isSyntax {
			reason = explainSyntax(before, rest, reason)
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
		return "the expression ends too early"
	}
	// Omit the parser's long list of expected tokens.
	reason, _, _ = strings.Cut(reason, " expecting ")
	return reason
}

var (
	unknownName  = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	unknownField = regexp.MustCompile(`^undefined field '([^']*)'`)
	noOverload   = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
)

// functions are CEL's functions that are useful here, for suggestions.
var functions = []string{"startsWith", "endsWith", "contains", "matches", "size", "has", "exists", "all",
	"exists_one", "filter", "map", "int", "uint", "double", "string", "timestamp", "duration", "type"}

func explainMeaning(rest, reason string) string {
	if parts := unknownField.FindStringSubmatch(reason); parts != nil {
		names := attributeNames()
		if near := nearest(parts[1], names); near != "" {
			return fmt.Sprintf("event has no attribute %s; did you mean event.%s?", parts[1], near)
		}
		return fmt.Sprintf("event has no attribute %s; it has %s", parts[1], strings.Join(names, ", "))
	}
	if parts := unknownName.FindStringSubmatch(reason); parts != nil {
		return explainName(parts[1], strings.HasPrefix(rest, "("))
	}
	if parts := noOverload.FindStringSubmatch(reason); parts != nil {
		name := parts[1]
		if operator, ok := operators.FindReverse(name); ok && operator != "" {
			name = operator
		}
		return fmt.Sprintf("%s cannot be applied to %s", name, parts[2])
	}
	return reason
}

func explainName(name string, called bool) string {
	if called {
		if strings.EqualFold(name, "not") {
			return "use ! for not"
		}
		if near := nearest(name, functions); near != "" {
			return fmt.Sprintf("unknown function %s; did you mean %s?", name, near)
		}
		return fmt.Sprintf("unknown function %s", name)
	}
	variables := append([]string{eventVariable}, dataVariables...)
	if near := nearest(name, variables); near != "" {
		return fmt.Sprintf("unknown name %s; did you mean %s?", name, near)
	}
	owner := "detection"
	if attributeNamed(name) >= 0 {
		owner = eventVariable
	}
	return fmt.Sprintf("unknown name %s; names begin with %s: did you mean %s.%s?", name, strings.Join(variables, ", "), owner, name)
}

// nearest returns the known word that is most similar to a mistyped one, or "".
func nearest(word string, known []string) string {
	const maxLength = 40 // longer than any typo
	if len(word) > maxLength {
		return ""
	}
	best, least := "", max(len(word)/3, 1)+1
	for _, candidate := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance returns the number of bytes to add, remove or change to turn a into b; a
// swap of neighbours counts as one.
func distance(a, b string) int {
	var before, row []int
	next := make([]int, len(b)+1)
	for j := range next {
		next[j] = j
	}
	for i := range len(a) {
		before, row, next = row, next, make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			changed := row[j]
			if a[i] != b[j] {
				changed++
			}
			next[j+1] = min(changed, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
	}
	return next[len(b)]
}
