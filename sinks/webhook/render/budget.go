package render

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// The bounds of one execution, which ends within a fraction of a second and makes at most
// maxSteps*bytesPerStep bytes of text. A step is the execution of a node of the template, or
// bytesPerStep bytes in a function.
const (
	maxSteps     = 500_000
	bytesPerStep = 192
	// sampleSteps replaces maxSteps for each sample, which is small.
	sampleSteps = maxSteps / 4
	// comparedPerStep is the number of bytes that are compared in the time of a step.
	comparedPerStep = 4096
	// listSteps is the cost of a list of nodes, such as the body of a range, in addition to
	// that of its nodes; templateSteps is that of {{template}}, which needs much of the stack.
	listSteps     = 4
	templateSteps = 100
)

// ErrTooMuch is returned if the template takes too many steps for an event, or makes too much
// text.
var ErrTooMuch = errors.New("the template was ended after too many steps: it loops too often for this event, or makes too much text")

// budget bounds the rest of one execution.
type budget struct {
	steps   int
	longest int // an upper bound of the length of all texts that the template can reach
}

// execution is a template with the budget of one execution at a time.
type execution struct {
	*template.Template
	budget budget
}

// newExecution returns a template whose functions spend a budget. prepare has changed t.
func newExecution(t *template.Template) (*execution, error) {
	clone, err := t.Clone()
	if err != nil {
		return nil, err
	}
	b := &execution{Template: clone}
	clone.Funcs(b.budget.functions()).Funcs(template.FuncMap{stepFunction: b.budget.step, rangeFunction: b.budget.ranged})
	return b, nil
}

// spend returns ErrTooMuch if there are no more steps.
func (b *budget) spend(steps int) error {
	b.steps -= steps
	if b.steps < 0 {
		return ErrTooMuch
	}
	return nil
}

// spendText spends the steps of a function that makes at most growth bytes of each byte of
// values. It is called before the text is made.
func (b *budget) spendText(growth int, values ...any) error {
	return b.spendBytes(growth * size(0, values))
}

func (b *budget) spendBytes(bytes int) error {
	b.longest = max(b.longest, bytes)
	return b.spend(1 + bytes/bytesPerStep)
}

// size returns before, increased by the size of a value as text. It stops at a size that no
// execution can handle.
func size(before int, value any) int {
	const atLeast = 16 // of a number, or of what surrounds a value
	bytes := before + atLeast
	switch v := value.(type) {
	case string:
		bytes += len(v)
	case json.Number:
		bytes += len(v)
	case map[string]any:
		for name, member := range v {
			if bytes = size(bytes+len(name), member); bytes > maxSteps*bytesPerStep {
				break
			}
		}
	case []any:
		for _, element := range v {
			if bytes = size(bytes, element); bytes > maxSteps*bytesPerStep {
				break
			}
		}
	}
	return bytes
}

var (
	// verb matches a verb of a format with its flags, width and precision, up to its letter.
	verb = regexp.MustCompile(`%[^%\pL]*`)
	// padding matches the numbers in a verb.
	padding = regexp.MustCompile(`\d+|\*`)
)

// formattedSize returns how many bytes fmt.Sprintf makes at most.
func formattedSize(format string, values []any) int {
	const (
		growth = 10        // %+q of a character beyond the basic plane, of 4 bytes
		widest = 1_000_000 // what fmt accepts
	)
	bytes := growth * size(len(format), values)
	verbs := verb.FindAllString(format, -1)
	if strings.Contains(format, "[") { // each may write the same value
		bytes *= 1 + len(verbs)
	}
	most := padded(values)
	for _, v := range verbs {
		for _, number := range padding.FindAllString(v, -1) {
			if n, err := strconv.Atoi(number); err == nil {
				bytes += min(n, widest) * most
			} else {
				bytes += widest * most
			}
		}
	}
	return bytes
}

// padded returns how many texts of a value fmt pads, each by itself: names and elements.
func padded(value any) int {
	texts := 1
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			texts += 1 + padded(member)
		}
	case []any:
		for _, element := range v {
			texts += padded(element)
		}
	}
	return texts
}

// The functions whose calls prepare adds to a template. They have no effect on its output.
const (
	stepFunction  = "_step"
	rangeFunction = "_range"
)

// step spends the steps of a list of nodes, some of which compare texts.
func (b *budget) step(nodes, comparisons int) (string, error) {
	return "", b.spend(nodes + comparisons*(b.longest/comparedPerStep))
}

// ranged spends the steps of sorting a map. It returns the value that a range iterates over.
func (b *budget) ranged(value any) (any, error) {
	if m, ok := value.(map[string]any); ok {
		return value, b.spend(4 * len(m))
	}
	return value, nil
}

// comparing holds the functions of text/template whose duration depends on the length of texts
// and that functions does not replace.
var comparing = map[string]bool{"eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true, "index": true}

// prepare changes a list of nodes and those within it: a call of step begins each list, and
// the operand of each range is passed through ranged, because text/template cannot be
// interrupted otherwise; a call of print ends each action that writes a value, so that a
// missing value writes nothing instead of <no value>. extra is added to the steps of the list.
func prepare(list *parse.ListNode, extra int) {
	if list == nil {
		return
	}
	nodes, comparisons := listSteps+extra, 0
	branch := func(b *parse.BranchNode) *parse.PipeNode {
		prepare(b.List, 0)
		prepare(b.ElseList, 0)
		return b.Pipe
	}
	for _, node := range list.Nodes {
		var pipe *parse.PipeNode
		switch n := node.(type) {
		case *parse.ActionNode:
			if pipe = n.Pipe; len(pipe.Decl) == 0 {
				pipe.Cmds = append(pipe.Cmds, call(n.Pos, "print"))
			}
		case *parse.TemplateNode:
			pipe = n.Pipe
		case *parse.IfNode:
			pipe = branch(&n.BranchNode)
		case *parse.WithNode:
			pipe = branch(&n.BranchNode)
		case *parse.RangeNode:
			pipe = branch(&n.BranchNode)
			operand := &parse.PipeNode{NodeType: parse.NodePipe, Pos: pipe.Pos, Cmds: pipe.Cmds}
			pipe.Cmds = []*parse.CommandNode{call(pipe.Pos, rangeFunction, operand)}
		}
		nodes++
		if pipe != nil {
			n, c := weigh(pipe)
			nodes, comparisons = nodes+n, comparisons+c
		}
	}
	step := call(list.Pos, stepFunction, number(list.Pos, nodes), number(list.Pos, comparisons))
	list.Nodes = append([]parse.Node{&parse.ActionNode{
		NodeType: parse.NodeAction, Pos: list.Pos, Pipe: &parse.PipeNode{NodeType: parse.NodePipe, Pos: list.Pos, Cmds: []*parse.CommandNode{step}},
	}}, list.Nodes...)
}

func call(at parse.Pos, function string, args ...parse.Node) *parse.CommandNode {
	args = append([]parse.Node{parse.NewIdentifier(function).SetPos(at)}, args...)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: at, Args: args}
}

func number(at parse.Pos, n int) *parse.NumberNode {
	return &parse.NumberNode{NodeType: parse.NodeNumber, Pos: at, IsInt: true, Int64: int64(n), Text: strconv.Itoa(n)}
}

// weigh returns how many nodes an expression has, and how many of them compare.
func weigh(node parse.Node) (nodes, comparisons int) {
	below := func(node parse.Node) {
		n, c := weigh(node)
		nodes, comparisons = nodes+n, comparisons+c
	}
	nodes = 1
	switch n := node.(type) {
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			below(command)
		}
	case *parse.CommandNode:
		for _, arg := range n.Args {
			below(arg)
		}
	case *parse.ChainNode:
		nodes += len(n.Field)
		below(n.Node)
	case *parse.FieldNode:
		nodes += len(n.Ident)
	case *parse.VariableNode:
		nodes += len(n.Ident)
	case *parse.StringNode:
		nodes += len(n.Text) / bytesPerStep
	case *parse.IdentifierNode:
		if comparing[n.Ident] {
			comparisons = 1
		}
	}
	return nodes, comparisons
}
