package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/template"
)

// functions returns the functions that text/template lacks, and replacements for those
// that would write <nil> or <no value> for a missing value.
func functions() template.FuncMap {
	return template.FuncMap{
		"json":           toJSON,
		"markdownEscape": func(value any) string { return markdown.Replace(text(value)) },
		"truncate":       truncate,
		"default":        orElse,
		"upper":          func(value any) string { return strings.ToUpper(text(value)) },
		"lower":          func(value any) string { return strings.ToLower(text(value)) },
		"join":           join,
		"int":            toInt,

		"print":    func(values ...any) string { return fmt.Sprint(present(values)...) },
		"println":  func(values ...any) string { return fmt.Sprintln(present(values)...) },
		"printf":   func(format string, values ...any) string { return fmt.Sprintf(format, present(values)...) },
		"html":     func(values ...any) string { return template.HTMLEscaper(present(values)...) },
		"js":       func(values ...any) string { return template.JSEscaper(present(values)...) },
		"urlquery": func(values ...any) string { return template.URLQueryEscaper(present(values)...) },
	}
}

// present replaces missing values by empty strings.
func present(values []any) []any {
	for i, value := range values {
		if value == nil {
			values[i] = ""
		}
	}
	return values
}

// text formats a value like print.
func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// toJSON encodes a value; a missing one is null. Unlike json.Marshal it does not escape
// <, > and &.
func toJSON(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// markdown escapes the characters that are special in CommonMark (section 2.4).
var markdown = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `{`, `\{`, `}`, `\}`, `[`, `\[`, `]`, `\]`, `(`, `\(`, `)`, `\)`,
	`#`, `\#`, `+`, `\+`, `-`, `\-`, `.`, `\.`, `!`, `\!`, `|`, `\|`, `<`, `\<`, `>`, `\>`, `~`, `\~`, `&`, `\&`,
)

// truncate returns the first n characters of a value; if some are cut off, the last of
// the n is an ellipsis.
func truncate(n int, value any) (string, error) {
	if n < 1 {
		return "", fmt.Errorf("truncate: the length is %d; it must be at least 1", n)
	}
	full := text(value)
	characters := []rune(full)
	if len(characters) <= n {
		return full, nil
	}
	return string(characters[:n-1]) + "…", nil
}

// orElse returns value, or fallback if value is missing, false or empty.
func orElse(fallback, value any) any {
	if truth, ok := template.IsTrue(value); ok && truth {
		return value
	}
	return fallback
}

// join joins the elements of a list with a separator; any other value is formatted like
// text.
func join(separator string, value any) string {
	list, ok := value.([]any)
	if !ok {
		return text(value)
	}
	texts := make([]string, len(list))
	for i, element := range list {
		texts[i] = text(element)
	}
	return strings.Join(texts, separator)
}

// toInt returns a number without its fraction, for comparisons; 0 for a missing value.
func toInt(value any) (int64, error) {
	if value == nil {
		return 0, nil
	}
	number := text(value)
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !(math.Abs(f) < 1<<63) {
		return 0, fmt.Errorf("%.40q is not a 64-bit number", number)
	}
	return int64(f), nil
}
