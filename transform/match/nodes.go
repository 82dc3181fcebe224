package match

import (
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// absent is the value of a missing field or attribute. CEL's unknown has the semantics
// that the package documents.
var absent = types.NewUnknown(0, nil)

// readNode evaluates to an attribute or a field of the event.
type readNode struct {
	id int64
	read
}

func (n readNode) ID() int64 { return n.id }

func (n readNode) Eval(vars interpreter.Activation) ref.Val { return n.value(readingOf(vars)) }

func (n readNode) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return n.value(readingOf(frame))
}

func (n readNode) value(r *reading) ref.Val {
	if n.attribute != nil {
		value := n.attribute.read(&r.event)
		switch {
		case n.presence:
			return types.Bool(value != nil)
		case value == nil:
			return absent
		}
		return value
	}
	field := r.field(n.slot)
	switch {
	case field.state == insideList:
		return types.NewErrWithNodeID(n.id, "a list has no fields: select an element, as in participants.exists(p, p.role == \"offender\")")
	case n.presence && field.state != unreached:
		return types.Bool(field.state == found)
	case field.state != found:
		return absent
	}
	value := field.decode()
	if value == types.NullValue && !n.nullable {
		return absent
	}
	return value
}

// stepNode evaluates a loop's step for one element, as long as the evaluation is below
// its limit.
type stepNode struct{ interpreter.InterpretableV2 }

func (n stepNode) Eval(vars interpreter.Activation) ref.Val {
	if err := readingOf(vars).spend(stepWork); err != nil {
		return err
	}
	return n.InterpretableV2.Eval(vars)
}

func (n stepNode) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if err := readingOf(frame).spend(stepWork); err != nil {
		return err
	}
	return n.InterpretableV2.Exec(frame)
}

// operandNode evaluates to an operand, and counts what the call does with it.
type operandNode struct {
	interpreter.InterpretableV2
	weight
}

func (n operandNode) Eval(vars interpreter.Activation) ref.Val {
	return n.counted(readingOf(vars), n.InterpretableV2.Eval(vars))
}

func (n operandNode) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return n.counted(readingOf(frame), n.InterpretableV2.Exec(frame))
}

// operandAttribute is operandNode for nodes that CEL still treats as attributes.
type operandAttribute struct {
	interpreter.InterpretableAttribute
	weight
}

func (n operandAttribute) Eval(vars interpreter.Activation) ref.Val {
	return n.counted(readingOf(vars), n.InterpretableAttribute.Eval(vars))
}

func (n operandAttribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return n.counted(readingOf(frame), n.InterpretableAttribute.Exec(frame))
}

// selectionNode evaluates CEL's node, and replaces a missing value by absent.
type selectionNode struct {
	interpreter.InterpretableAttribute
	selection
}

func (n selectionNode) Eval(vars interpreter.Activation) ref.Val {
	return n.value(n.InterpretableAttribute.Eval(vars))
}

func (n selectionNode) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return n.value(n.InterpretableAttribute.Exec(frame))
}

func (n selectionNode) value(value ref.Val) ref.Val {
	switch value := value.(type) {
	case types.Null:
		if !n.nullable {
			return absent
		}
	case *types.Err:
		// CEL has no error types for these.
		if reason := value.Error(); strings.HasPrefix(reason, "no such key: ") || strings.HasPrefix(reason, "index out of bounds: ") {
			return absent
		}
	}
	return value
}
