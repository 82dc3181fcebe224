// Package render makes texts of events by templates that users write: text/template
// with a few functions.
//
// A template sees the event as .event, with its attributes, stream and action, and
// its data as .data, whose members can be named at once, as in
// .detection.risk_score. Numbers are as the appliance wrote them. What is absent is
// empty wherever it is written, tested or looped over, and so is what lies below it;
// null counts as absent.
package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/template"
	"text/template/parse"

	"ndrbridge/transform"
)

// Template is a compiled template. It is safe for concurrent use.
type Template struct {
	template *template.Template
	json     bool
}

// Compile reads a template. asJSON says that what it makes must be one JSON value.
// The error tells what is wrong and where, or why the template fails for samples of
// all streams.
func Compile(text string, asJSON bool) (*Template, error) {
	compiled, err := template.New("template").Funcs(functions()).Parse(text)
	if err != nil {
		return nil, err
	}
	for _, t := range compiled.Templates() {
		if t.Tree != nil {
			writeNothingForAbsent(t.Tree.Root)
		}
	}
	t := &Template{compiled, asJSON}
	return t, t.try()
}

// ErrTooLong says that a template makes more of an event than is allowed.
var ErrTooLong = errors.New("the text is longer than allowed")

// Render makes the text of an event, of most bytes at most. The error is that of
// the template, of this event's data, or ErrTooLong, wrapped.
func (t *Template) Render(e transform.Event, most int) ([]byte, error) {
	view, err := newView(e)
	if err != nil {
		return nil, err
	}
	out := bounded{most: most}
	if err := t.template.Execute(&out, view); err != nil {
		return nil, err
	}
	if t.json && !json.Valid(out.text) {
		return nil, fmt.Errorf("template: what it makes is no JSON: %w", mistake(out.text))
	}
	return out.text, nil
}

// mistake says where a text stops to be JSON.
func mistake(text []byte) error {
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("byte %d: %w", syntax.Offset, err)
	}
	return err
}

// bounded keeps what is written, up to most bytes.
type bounded struct {
	text []byte
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.most {
		return 0, fmt.Errorf("%w: %d bytes", ErrTooLong, b.most)
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// writeNothingForAbsent has every action that writes a value end in print, which
// makes nothing of what is absent, where text/template writes <no value>.
func writeNothingForAbsent(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, node := range n.Nodes {
			writeNothingForAbsent(node)
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			print := parse.NewIdentifier("print").SetPos(n.Pos)
			n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{print}})
		}
	case *parse.IfNode:
		writeNothingForAbsent(n.List)
		writeNothingForAbsent(n.ElseList)
	case *parse.RangeNode:
		writeNothingForAbsent(n.List)
		writeNothingForAbsent(n.ElseList)
	case *parse.WithNode:
		writeNothingForAbsent(n.List)
		writeNothingForAbsent(n.ElseList)
	}
}
