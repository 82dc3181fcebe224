// Package events generates the reference of the events, docs/events.md. Its examples are events
// of a bridge that ran, others created by its code from the objects of package fixture, and
// messages that its sinks sent to real receivers.
package events

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"ndrbridge/transform"
)

// pageFile is the path of the page, relative to the root of the repository.
const pageFile = "docs/events.md"

//go:embed page.md
var text string

// page returns the expected contents of the page with these examples.
func page(ctx context.Context, made []example) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	named := func(name string) (transform.Event, error) {
		for _, e := range made {
			if e.name == name {
				return e.event, nil
			}
		}
		return transform.Event{}, fmt.Errorf("unknown example %q", name)
	}
	show := func(form func(transform.Event) []byte) func(name string) (string, error) {
		return func(name string) (string, error) {
			e, err := named(name)
			if err != nil {
				return "", err
			}
			return indented(form(e))
		}
	}
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"event": show(transform.Event.Structured), // an example in structured mode
		"data":  show(transform.Event.Data),
		// tracked lists the fields that changes can have.
		"tracked": func() string {
			return "`" + strings.Join(transform.TrackedFields(), "`, `") + "`"
		},
		// part returns a value of an example, by its path.
		"part": func(name, path string) (string, error) {
			e, err := named(name)
			value := json.RawMessage(e.Structured())
			for key := range strings.SplitSeq(path, ".") {
				var object map[string]json.RawMessage
				if err := json.Unmarshal(value, &object); err != nil || object[key] == nil {
					return "", fmt.Errorf("%s has no %s: %w", name, path, err)
				}
				value = object[key]
			}
			return string(value), err
		},
		// header returns the header with which a receiver gets examples.
		"header": func(sink, mode string, names ...string) (string, error) {
			var events []transform.Event
			for _, name := range names {
				e, err := named(name)
				if err != nil {
					return "", err
				}
				events = append(events, e)
			}
			got, err := through[sink](ctx, transform.Mode(mode), events...)
			if err != nil {
				return "", fmt.Errorf("through %s: %w", sink, err)
			}
			return strings.Join(got, "\n"), nil
		},
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := parsed.Execute(&b, nil); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// indented returns indented JSON, with numbers and strings as written.
func indented(value []byte) (string, error) {
	var b bytes.Buffer
	err := json.Indent(&b, value, "", "  ")
	return b.String(), err
}
