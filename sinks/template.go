package sinks

import (
	"errors"
	"fmt"
	"strings"

	"ndrbridge/transform"
)

// Template is the name of a topic or subject that depends on the event: text
// with the placeholders {appliance}, {stream} and {action}.
type Template struct {
	text  string
	parts []templatePart
}

// templatePart is text as it stands, or a placeholder.
type templatePart struct {
	text        string
	placeholder bool
}

const placeholders = "{appliance}, {stream} and {action}"

// ParseTemplate reads a template. The error tells an empty text, a brace without
// its partner, or an unknown placeholder, and which ones there are.
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
			return t, fmt.Errorf("%q has a brace without its partner: placeholders are %s", text, placeholders)
		}
		switch name {
		case "appliance", "stream", "action":
			t.parts = append(t.parts, templatePart{text: name, placeholder: true})
		default:
			return t, fmt.Errorf("%q: no placeholder is called {%s}: there are %s", text, name, placeholders)
		}
		rest = after
	}
	return t, nil
}

// Expand puts what the event says in the placeholders' places.
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

// Fill puts one value in every placeholder's place: a wildcard, say.
func (t Template) Fill(value string) string {
	return t.replace(func(string) string { return value })
}

// String is the template's text.
func (t Template) String() string { return t.text }

func (t Template) replace(value func(placeholder string) string) string {
	if len(t.parts) == 1 && !t.parts[0].placeholder {
		return t.text
	}
	var space [128]byte
	b := space[:0]
	for _, part := range t.parts {
		if part.placeholder {
			b = append(b, value(part.text)...)
		} else {
			b = append(b, part.text...)
		}
	}
	return string(b)
}
