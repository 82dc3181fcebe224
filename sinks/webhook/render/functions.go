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
// that would write <nil> or <no value> for a missing value. They spend b. The growth that
// they pass to spendText follows from the longest escape of a byte.
func (b *budget) functions() template.FuncMap {
	spending := func(growth int, write func(...any) string) func(...any) (string, error) {
		return func(values ...any) (string, error) {
			if err := b.spendText(growth, values...); err != nil {
				return "", err
			}
			return write(present(values)...), nil
		}
	}
	ofText := func(growth int, convert func(string) string) func(any) (string, error) {
		write := spending(growth, func(values ...any) string { return convert(fmt.Sprint(values...)) })
		return func(value any) (string, error) { return write(value) }
	}
	return template.FuncMap{
		"json":           b.json,
		"markdownEscape": ofText(2, markdown.Replace),
		"truncate":       b.truncate,
		"default":        orElse,
		"upper":          ofText(2, strings.ToUpper),
		"lower":          ofText(2, strings.ToLower),
		"join":           b.join,
		"int":            b.int,

		"print":    spending(1, fmt.Sprint),
		"println":  spending(1, fmt.Sprintln),
		"printf":   b.printf,
		"html":     spending(5, template.HTMLEscaper),
		"js":       spending(6, template.JSEscaper),
		"urlquery": spending(3, template.URLQueryEscaper),
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

// printf formats like fmt.Sprintf.
func (b *budget) printf(format string, values ...any) (string, error) {
	if err := b.spendBytes(formattedSize(format, values)); err != nil {
		return "", err
	}
	return fmt.Sprintf(format, present(values)...), nil
}

// json encodes a value; a missing one is null. Unlike json.Marshal it does not escape
// <, > and &.
func (b *budget) json(value any) (string, error) {
	if err := b.spendText(6, value); err != nil {
		return "", err
	}
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
func (b *budget) truncate(n int, value any) (string, error) {
	if n < 1 {
		return "", fmt.Errorf("truncate: the length is %d; it must be at least 1", n)
	}
	if err := b.spendText(4, value); err != nil {
		return "", err
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
func (b *budget) join(separator string, value any) (string, error) {
	list, ok := value.([]any)
	if err := b.spendBytes(size(len(separator)*len(list), value)); err != nil {
		return "", err
	}
	if !ok {
		return text(value), nil
	}
	texts := make([]string, len(list))
	for i, element := range list {
		texts[i] = text(element)
	}
	return strings.Join(texts, separator), nil
}

// int returns a number without its fraction, for comparisons; 0 for a missing value.
func (b *budget) int(value any) (int64, error) {
	if err := b.spendText(1, value); err != nil {
		return 0, err
	}
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
