// Command events makes the reference of the events: docs/events.md, whose examples are
// events that the bridge's own code makes of the fixtures here, and messages that its
// sinks sent to real receivers. It is run from the top of the repository, by make
// reference.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"

	"ndrbridge/transform"
)

// pageFile is the page, from the top of the repository.
const pageFile = "docs/events.md"

//go:embed page.md
var text string

func main() {
	page, err := page(context.Background())
	if err == nil {
		err = os.WriteFile(pageFile, page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(1)
	}
}

// page is what the page should hold.
func page(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	made, err := examples()
	if err != nil {
		return nil, err
	}
	named := func(name string) (transform.Event, error) {
		for _, e := range made {
			if e.name == name {
				return e.event, nil
			}
		}
		return transform.Event{}, fmt.Errorf("there is no example %q", name)
	}
	parsed, err := template.New("page").Funcs(template.FuncMap{
		// event is an example in structured mode.
		"event": func(name string) (string, error) {
			e, err := named(name)
			if err != nil {
				return "", err
			}
			return indented(e.Structured())
		},
		// data is an example's data alone.
		"data": func(name string) (string, error) {
			e, err := named(name)
			if err != nil {
				return "", err
			}
			return indented(e.Data())
		},
		// sent is what a receiver gets of examples.
		"sent": func(sink, mode string, names ...string) (string, error) {
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
			body, err := indented(got.body)
			return strings.Join(got.header, "\n") + "\n\n" + body, err
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

// indented is JSON for a reader: numbers and texts stay as they are written.
func indented(value []byte) (string, error) {
	var b bytes.Buffer
	err := json.Indent(&b, value, "", "  ")
	return b.String(), err
}
