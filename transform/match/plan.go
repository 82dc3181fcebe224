package match

import (
	"errors"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
)

// plan records what an expression reads, by the ids of its syntax tree's nodes. The
// fields named by constant paths, such as detection.risk_score, are collected in
// fields, and are found in one pass over an event's bytes.
type plan struct {
	fields     branch
	slots      int
	reads      map[int64]read
	selections map[int64]selection
	steps      map[int64]bool   // nodes that a loop evaluates for each element
	operands   map[int64]weight // nodes whose work is counted
}

// read is a node for an attribute, or for a field named by a constant path.
type read struct {
	attribute *attribute // nil for a field
	slot      int        // of the field
	presence  bool       // tested by has()
	nullable  bool       // null is a value in this context
}

// selection is a node that selects from a computed value, such as an element of a list.
type selection struct{ nullable bool }

func newPlan(tree *ast.AST) (*plan, error) {
	p := &plan{
		fields:     branch{slot: noSlot},
		reads:      make(map[int64]read),
		selections: make(map[int64]selection),
		steps:      make(map[int64]bool),
		operands:   make(map[int64]weight),
	}
	if err := p.visit(tree.Expr(), false, nil); err != nil {
		return nil, err
	}
	return p, nil
}

// visit records what a node and its children read. nullable means that null is a value
// in the node's context; locals are the variables of the enclosing loops.
func (p *plan) visit(e ast.Expr, nullable bool, locals []string) error {
	switch e.Kind() {
	case ast.IdentKind, ast.SelectKind:
		return p.visitSelection(e, nullable, true, locals)
	case ast.CallKind:
		return p.visitCall(e, nullable, locals)
	case ast.ListKind:
		return p.visitEach(e.AsList().Elements(), locals)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			if err := p.visitEach([]ast.Expr{entry.AsMapEntry().Key(), entry.AsMapEntry().Value()}, locals); err != nil {
				return err
			}
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			if err := p.visit(field.AsStructField().Value(), true, locals); err != nil {
				return err
			}
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		p.steps[c.LoopStep().ID()] = true
		if err := p.visit(c.IterRange(), false, locals); err != nil {
			return err
		}
		if err := p.visit(c.AccuInit(), true, locals); err != nil {
			return err
		}
		inner := append(slices.Clip(locals), c.IterVar(), c.IterVar2(), c.AccuVar())
		return p.visitEach([]ast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()}, inner)
	}
	return nil
}

func (p *plan) visitEach(nodes []ast.Expr, locals []string) error {
	for _, e := range nodes {
		if err := p.visit(e, true, locals); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) visitCall(e ast.Expr, nullable bool, locals []string) error {
	call := e.AsCall()
	p.weigh(call, len(locals) > 0)
	if call.IsMemberFunction() {
		if err := p.visit(call.Target(), false, locals); err != nil {
			return err
		}
	}
	switch call.FunctionName() {
	case operators.Index:
		return p.visitSelection(e, nullable, true, locals)
	case operators.Equals, operators.NotEquals:
		return p.visitEach(call.Args(), locals)
	case operators.In:
		if err := p.visit(call.Args()[0], true, locals); err != nil {
			return err
		}
		return p.visit(call.Args()[1], false, locals)
	case operators.Conditional:
		p.selections[e.ID()] = selection{nullable}
		if err := p.visit(call.Args()[0], false, locals); err != nil {
			return err
		}
		return p.visitEach(call.Args()[1:], locals)
	}
	for _, arg := range call.Args() {
		if err := p.visit(arg, false, locals); err != nil {
			return err
		}
	}
	return nil
}

// weigh records the operands of a call whose work is counted: those in a loop, the
// results of calls and loops, and the text that a pattern is matched against, but no
// constants.
func (p *plan) weigh(call ast.CallExpr, inLoop bool) {
	operands := call.Args()
	if call.IsMemberFunction() {
		operands = append([]ast.Expr{call.Target()}, operands...)
	}
	for i, e := range operands {
		w := weightOf(call, i == 0)
		read := e.Kind() == ast.IdentKind || e.Kind() == ast.SelectKind
		if w != weightless && !constant(e) && (inLoop || !read || w == matched) {
			p.operands[e.ID()] = w
		}
	}
}

// visitSelection records a chain of selections. last means that nothing is selected
// from its result.
func (p *plan) visitSelection(e ast.Expr, nullable, last bool, locals []string) error {
	names, presence := constantPath(e)
	known := len(names) > 0 && !slices.Contains(locals, names[0])
	switch {
	case known && names[0] == eventVariable:
		if len(names) != 2 {
			return errors.New("event is not a value itself: name one of its attributes, such as event.type")
		}
		p.reads[e.ID()] = read{attribute: &attributes[attributeNamed(names[1])], presence: presence, nullable: nullable}
		return nil
	case known && slices.Contains(dataVariables, names[0]):
		field := p.fields.add(names)
		if field.slot == noSlot {
			field.slot = p.slots
			p.slots++
		}
		p.reads[e.ID()] = read{slot: field.slot, presence: presence, nullable: nullable || !last}
		return nil
	}
	if last {
		p.selections[e.ID()] = selection{nullable}
	}
	switch e.Kind() {
	case ast.SelectKind:
		return p.visitOperand(e.AsSelect().Operand(), locals)
	case ast.CallKind:
		if err := p.visitOperand(e.AsCall().Args()[0], locals); err != nil {
			return err
		}
		return p.visit(e.AsCall().Args()[1], false, locals)
	}
	return nil
}

// visitOperand records the operand of a selection.
func (p *plan) visitOperand(e ast.Expr, locals []string) error {
	isIndex := e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Index
	if e.Kind() == ast.IdentKind || e.Kind() == ast.SelectKind || isIndex {
		return p.visitSelection(e, true, false, locals)
	}
	return p.visit(e, true, locals)
}

// constantPath returns the name of a variable and of the fields selected from it, or
// nil if the chain contains anything else. presence means that has() tests the last
// one.
func constantPath(e ast.Expr) (names []string, presence bool) {
	for at := e; ; {
		switch at.Kind() {
		case ast.IdentKind:
			names = append(names, at.AsIdent())
			slices.Reverse(names)
			return names, presence
		case ast.SelectKind:
			s := at.AsSelect()
			presence = presence || s.IsTestOnly()
			names = append(names, s.FieldName())
			at = s.Operand()
		case ast.CallKind:
			c := at.AsCall()
			if c.FunctionName() != operators.Index || c.Args()[1].Kind() != ast.LiteralKind {
				return nil, false
			}
			name, ok := c.Args()[1].AsLiteral().(types.String)
			if !ok {
				return nil, false
			}
			names = append(names, string(name))
			at = c.Args()[0]
		default:
			return nil, false
		}
	}
}

// decorate replaces CEL's nodes by those of the plan.
func (p *plan) decorate(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if planned, ok := node.(interpreter.InterpretableAttribute); ok {
		node = p.decorateSelection(planned)
	}
	if w := p.operands[node.ID()]; w != weightless {
		if attribute, ok := node.(interpreter.InterpretableAttribute); ok {
			node = operandAttribute{attribute, w}
		} else {
			node = operandNode{node, w}
		}
	}
	if p.steps[node.ID()] {
		node = stepNode{node}
	}
	return node, nil
}

func (p *plan) decorateSelection(planned interpreter.InterpretableAttribute) interpreter.InterpretableV2 {
	// A node that is the operand of a selection is wrapped again under the same id.
	if _, direct := planned.Attr().(interpreter.NamespacedAttribute); direct {
		if r, ok := p.reads[planned.ID()]; ok {
			return readNode{planned.ID(), r}
		}
	}
	if s, ok := p.selections[planned.ID()]; ok {
		return selectionNode{planned, s}
	}
	return planned
}
