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

// functions are those that text/template has not, and those of its own that would
// write <nil> or <no value> for what is absent.
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

// present puts empty texts in the place of what is absent.
func present(values []any) []any {
	for i, value := range values {
		if value == nil {
			values[i] = ""
		}
	}
	return values
}

// text is a value as print writes it.
func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// toJSON encodes a value; what is absent is null. Unlike json.Marshal it leaves <, >
// and & as they are.
func toJSON(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// markdown escapes what CommonMark (section 2.4) gives a meaning.
var markdown = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `{`, `\{`, `}`, `\}`, `[`, `\[`, `]`, `\]`, `(`, `\(`, `)`, `\)`,
	`#`, `\#`, `+`, `\+`, `-`, `\-`, `.`, `\.`, `!`, `\!`, `|`, `\|`, `<`, `\<`, `>`, `\>`, `~`, `\~`, `&`, `\&`,
)

// truncate is the first n characters of a value, the last of them … where some are
// left out.
func truncate(n int, value any) (string, error) {
	if n < 1 {
		return "", fmt.Errorf("truncate to %d characters: at least 1", n)
	}
	whole := text(value)
	characters := []rune(whole)
	if len(characters) <= n {
		return whole, nil
	}
	return string(characters[:n-1]) + "…", nil
}

// orElse is value, or instead where that is absent, false or empty.
func orElse(instead, value any) any {
	if truth, ok := template.IsTrue(value); ok && truth {
		return value
	}
	return instead
}

// join is the elements of a list with a separator between them; of what is no list,
// itself.
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

// toInt is a number without its fraction, to be compared; of what is absent, 0.
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
		return 0, fmt.Errorf("%.40q is no number of 64 bits", number)
	}
	return int64(f), nil
}
