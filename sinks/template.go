package sinks

import (
	"errors"
	"fmt"
	"strings"

	"ndrbridge/transform"
)

// Template is the template of a topic or subject name: text with the placeholders
// {appliance}, {stream} and {action}, which depend on the event.
type Template struct {
	text  string
	parts []templatePart
}

// templatePart is literal text, or the name of a placeholder.
type templatePart struct {
	text        string
	placeholder bool
}

const placeholders = "{appliance}, {stream} and {action}"

// ParseTemplate parses a template. It returns an error if the text is empty, a
// brace is unmatched, or a placeholder is unknown.
func ParseTemplate(text string) (Template, error) {
	t := Template{text: text}
	if text == "" {
		return t, errors.New("it is empty")
	}
	for rest := text; rest != ""; {
		brace := strings.IndexAny(rest, "{}")
		if brace < 0 {
			t.parts = append(t.parts, templatePart{text: rest})
			break
		}
		if brace > 0 {
			t.parts = append(t.parts, templatePart{text: rest[:brace]})
		}
		name, after, closed := strings.Cut(rest[brace+1:], "}")
		if rest[brace] == '}' || !closed || strings.Contains(name, "{") {
			return t, fmt.Errorf("%q has an unmatched brace: placeholders are %s", text, placeholders)
		}
		switch name {
		case "appliance", "stream", "action":
			t.parts = append(t.parts, templatePart{text: name, placeholder: true})
		default:
			return t, fmt.Errorf("%q: unknown placeholder {%s}: use %s", text, name, placeholders)
		}
		rest = after
	}
	return t, nil
}

// Expand returns the text with the placeholders replaced by the event's values.
func (t Template) Expand(e transform.Event) string {
	return t.replace(func(placeholder string) string {
		switch placeholder {
		case "appliance":
			return e.Appliance
		case "stream":
			return e.Stream()
		default:
			return e.Action()
		}
	})
}

// Fill returns the text with every placeholder replaced by value, for example a
// wildcard.
func (t Template) Fill(value string) string {
	return t.replace(func(string) string { return value })
}

// String returns the template's text.
func (t Template) String() string { return t.text }

func (t Template) replace(value func(placeholder string) string) string {
	if len(t.parts) == 1 && !t.parts[0].placeholder {
		return t.text
	}
	var buffer [128]byte
	b := buffer[:0]
	for _, part := range t.parts {
		if part.placeholder {
			b = append(b, value(part.text)...)
		} else {
			b = append(b, part.text...)
		}
	}
	return string(b)
}
