// Package render renders events with user-defined templates: text/template with a few
// more functions.
//
// A template sees the event as .event, with its attributes, stream and action, and
// its data as .data, whose members are also available at the top level, such as
// .detection.risk_score. Numbers are as the appliance wrote them. A missing value, and
// everything below it, is empty wherever it is written, tested or looped over; null
// counts as missing.
package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"text/template"

	"ndrbridge/transform"
)

// Template is a compiled template. It is safe for concurrent use.
type Template struct {
	template *template.Template
	json     bool
	idle     sync.Pool // of *execution
}

// Compile parses a template. If asJSON is set, its output must be one JSON value. The
// error locates a syntax error by its line, or explains why the template fails for sample events of
// all streams.
func Compile(text string, asJSON bool) (*Template, error) {
	compiled, err := template.New("template").Funcs((&budget{}).functions()).Parse(text)
	if err != nil {
		return nil, locate(err)
	}
	for _, t := range compiled.Templates() {
		if t.Tree != nil {
			prepare(t.Tree.Root, templateSteps)
		}
	}
	t := &Template{template: compiled, json: asJSON}
	return t, t.try()
}

// ErrTooLong is returned if the output exceeds the limit.
var ErrTooLong = errors.New("the text is longer than allowed")

// Render returns the text of an event, at most maxBytes long. It returns an error if
// the template fails for this event's data, if the output is not valid JSON though
// required, or ErrTooLong or ErrTooMuch, wrapped.
func (t *Template) Render(e transform.Event, maxBytes int) ([]byte, error) {
	return t.render(e, maxBytes, maxSteps)
}

func (t *Template) render(e transform.Event, maxBytes, steps int) ([]byte, error) {
	view, err := newView(e)
	if err != nil {
		return nil, err
	}
	run, ok := t.idle.Get().(*execution)
	if !ok {
		if run, err = newExecution(t.template); err != nil {
			return nil, err
		}
	}
	defer t.idle.Put(run)
	run.budget = budget{steps: steps, longest: len(e.Data())}
	out := limitedBuffer{maxBytes: maxBytes}
	if err := run.Execute(&out, view); err != nil {
		return nil, locate(err)
	}
	if t.json && !json.Valid(out.text) {
		return nil, fmt.Errorf("the output of the template is not valid JSON: %w; write values as in {{json .detection.title}}", syntaxError(out.text))
	}
	return out.text, nil
}

// syntaxError returns the error of invalid JSON, with its position.
func syntaxError(text []byte) error {
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		reason, _, _ := strings.Cut(err.Error(), " looking for ")
		return fmt.Errorf("byte %d: %s", syntax.Offset, reason)
	}
	return err
}

// limitedBuffer is a buffer that accepts at most maxBytes bytes.
type limitedBuffer struct {
	text     []byte
	maxBytes int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.maxBytes {
		return 0, fmt.Errorf("%w: %d bytes", ErrTooLong, b.maxBytes)
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// newView returns the data of a template for an event.
func newView(e transform.Event) (map[string]any, error) {
	event := map[string]any{"stream": e.Stream(), "action": e.Action()}
	for name, value := range e.Headers() {
		event[name] = value
	}
	if e.SeverityNumber != 0 {
		event["severitynumber"] = e.SeverityNumber
	}
	decoder := json.NewDecoder(bytes.NewReader(e.Data()))
	decoder.UseNumber()
	var data any
	if err := decoder.Decode(&data); err != nil {
		return nil, fmt.Errorf("decode the event's data: %w", err)
	}
	dropNulls(data)
	view := make(map[string]any)
	if members, ok := data.(map[string]any); ok {
		maps.Copy(view, members)
	}
	view["event"], view["data"] = event, data
	return view, nil
}

// dropNulls removes null members from objects. text/template allows access below a
// missing key, but not below nil.
func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if member == nil {
				delete(v, name)
				continue
			}
			dropNulls(member)
		}
	case []any:
		for _, element := range v {
			dropNulls(element)
		}
	}
}
