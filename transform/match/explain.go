package match

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/operators"
)

// explain makes the error of an expression's mistakes, in the words of somebody
// who writes one.
func explain(expression string, mistakes []*common.Error) error {
	if strings.TrimSpace(expression) == "" {
		return errors.New("the expression is empty")
	}
	lines := strings.Split(expression, "\n")
	var told []error
	for _, m := range mistakes {
		before, rest := splitAt(lines, m.Location)
		reason, isSyntax := strings.CutPrefix(m.Message, "Syntax error: ")
		if isSyntax {
			reason = explainSyntax(before, rest, reason)
		} else {
			reason = explainMeaning(rest, reason)
		}
		told = append(told, fmt.Errorf("%s: %s", place(lines, m.Location), reason))
		// What is said behind these mostly follows from them.
		if isSyntax || strings.HasPrefix(rest, "(") {
			break
		}
	}
	return errors.Join(told...)
}

// place tells a place in an expression.
func place(lines []string, at common.Location) string {
	before, rest := splitAt(lines, at)
	told := fmt.Sprintf("column %d", len([]rune(before))+1)
	if len(lines) > 1 {
		told = fmt.Sprintf("line %d, %s", at.Line(), told)
	}
	if rest != "" {
		told += fmt.Sprintf(", at %q", excerpt(rest))
	}
	return told
}

// splitAt returns the line of a place before and from it.
func splitAt(lines []string, at common.Location) (before, rest string) {
	if at.Line() < 1 || at.Line() > len(lines) {
		return "", ""
	}
	line := []rune(lines[at.Line()-1])
	column := min(max(at.Column(), 0), len(line))
	return string(line[:column]), string(line[column:])
}

// excerpt is the start of what a mistake is at.
func excerpt(rest string) string {
	const most = 20
	if runes := []rune(rest); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return rest
}

// slip is what people write who know another language, just before or at the place
// where the parser stops.
type slip struct {
	before, at *regexp.Regexp
	hint       string
}

var slips = []slip{
	{nil, regexp.MustCompile(`^=>`), "at least is written >="},
	{nil, regexp.MustCompile(`^=`), "to compare, write =="},
	{nil, regexp.MustCompile(`^&`), "and is written &&"},
	{nil, regexp.MustCompile(`^\|`), "or is written ||"},
	{nil, regexp.MustCompile(`(?i)^and\b`), "and is written &&"},
	{nil, regexp.MustCompile(`(?i)^or\b`), "or is written ||"},
	{nil, regexp.MustCompile(`(?i)^not\b`), "not is written !"},
	{regexp.MustCompile(`(?i)\bnot\s*$`), nil, "not is written !"},
	{regexp.MustCompile(`<$`), regexp.MustCompile(`^>`), "unequal is written !="},
	{regexp.MustCompile(`\bin\s*\([^()]*$`), regexp.MustCompile(`^,`), `a list is written in brackets: in ["a", "b"]`},
	{nil, regexp.MustCompile(`(?i)^(like|contains|matches|startswith|endswith)\b`), `write a call: detection.title.contains("DNS"), or startsWith, endsWith, matches`},
	{nil, regexp.MustCompile(`^[“”„‘’]`), `write straight quotes: "`},
	{nil, regexp.MustCompile(`^["']`), "the text has no closing quote, or an operator is missing before it"},
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
	// What the parser would have taken instead is a long list of its tokens.
	reason, _, _ = strings.Cut(reason, " expecting ")
	return reason
}

var (
	unknownName  = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	unknownField = regexp.MustCompile(`^undefined field '([^']*)'`)
	noOverload   = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
)

// functions are those of CEL that people want here, for suggestions.
var functions = []string{"startsWith", "endsWith", "contains", "matches", "size", "has", "exists", "all",
	"exists_one", "filter", "map", "int", "uint", "double", "string", "timestamp", "duration", "type"}

func explainMeaning(rest, reason string) string {
	if parts := unknownField.FindStringSubmatch(reason); parts != nil {
		names := make([]string, 0, len(attributes))
		for _, a := range attributes {
			names = append(names, a.name)
		}
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
			return "not is written !"
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

// nearest returns the known word that a mistyped one resembles, or "".
func nearest(word string, known []string) string {
	const longest = 40 // far above what anybody mistypes
	if len(word) > longest {
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

// distance is how many bytes must be added, dropped or changed to make b of a,
// neighbours that are swapped counting once.
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
