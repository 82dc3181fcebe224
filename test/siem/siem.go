// Package siem reads CEF and LEEF strictly by their standards, for tests.
package siem

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Document is the content of a line.
type Document struct {
	// Header are the fields of the header after the version of the format; those of LEEF
	// without the delimiter.
	Header []string
	Keys   map[string]string
}

// ReadCEF reads a line of CEF:0 by the implementation standard, version 27.
func ReadCEF(line string) (Document, error) {
	d := Document{Keys: make(map[string]string)}
	if err := checkCharacters(line, ""); err != nil {
		return d, err
	}
	rest, found := strings.CutPrefix(line, "CEF:0|")
	if !found {
		return d, fmt.Errorf("the line does not begin with CEF:0|")
	}
	var field strings.Builder
	for len(d.Header) < 6 {
		if rest == "" {
			return d, fmt.Errorf("the header ends after %d fields", len(d.Header))
		}
		c := rest[0]
		rest = rest[1:]
		switch c {
		case '|':
			d.Header = append(d.Header, field.String())
			field.Reset()
			continue
		case '\\':
			if rest == "" || rest[0] != '\\' && rest[0] != '|' {
				return d, fmt.Errorf("a backslash in field %d of the header escapes nothing", len(d.Header))
			}
			c, rest = rest[0], rest[1:]
		}
		field.WriteByte(c)
	}
	for rest != "" {
		key, after, found := strings.Cut(rest, "=")
		if !found || !isKey(key) {
			return d, fmt.Errorf("%.40q is not a key", rest)
		}
		end := len(after)
		for i := 0; i < len(after); i++ {
			switch after[i] {
			case '\\':
				i++
			case '=': // of the next key, which begins after the last space
				end = strings.LastIndexByte(after[:i], ' ')
				if end < 0 {
					return d, fmt.Errorf("an equals sign in the value of %s", key)
				}
				i = len(after)
			}
		}
		value, err := unescapeCEF(after[:end])
		if err != nil {
			return d, fmt.Errorf("%s: %w", key, err)
		}
		if err := d.set(key, value); err != nil {
			return d, err
		}
		rest = strings.TrimPrefix(after[end:], " ")
	}
	return d, nil
}

func unescapeCEF(value string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '\\' {
			i++
			escapes := map[byte]byte{'\\': '\\', '=': '=', 'n': '\n', 'r': '\r'}
			if i == len(value) || escapes[value[i]] == 0 {
				return "", fmt.Errorf("a backslash escapes nothing")
			}
			c = escapes[value[i]]
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

// ReadLEEF reads a line of LEEF:2.0 whose keys are separated by tabs.
func ReadLEEF(line string) (Document, error) {
	d := Document{Keys: make(map[string]string)}
	if err := checkCharacters(line, "\t"); err != nil {
		return d, err
	}
	fields := strings.SplitN(line, "|", 7)
	if len(fields) < 7 || fields[0] != "LEEF:2.0" || fields[5] != "0x09" {
		return d, fmt.Errorf("the header is not that of LEEF 2.0 with a tab")
	}
	d.Header = fields[1:5]
	for attribute := range strings.SplitSeq(fields[6], "\t") {
		key, value, found := strings.Cut(attribute, "=")
		if !found || !isKey(key) {
			return d, fmt.Errorf("%.40q is not an attribute", attribute)
		}
		if err := d.set(key, value); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (d Document) set(key, value string) error {
	switch _, twice := d.Keys[key]; {
	case twice:
		return fmt.Errorf("%s occurs twice", key)
	case value == "":
		return fmt.Errorf("%s is empty", key)
	case strings.TrimFunc(value, func(r rune) bool { return unicode.IsSpace(r) && r != '\n' && r != '\r' }) != value: // line breaks were escaped
		return fmt.Errorf("%s begins or ends with a space: %.40q", key, value)
	}
	d.Keys[key] = value
	return nil
}

func isKey(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// checkCharacters reports an error for a line that is not one line of UTF-8 text.
func checkCharacters(line, except string) error {
	if !utf8.ValidString(line) {
		return fmt.Errorf("the line is not UTF-8")
	}
	for i, r := range line {
		if (unicode.IsControl(r) || r == '\u2028' || r == '\u2029') && !strings.ContainsRune(except, r) {
			return fmt.Errorf("the line has a character %U at %d", r, i)
		}
	}
	return nil
}
