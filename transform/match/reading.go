package match

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"ndrbridge/transform"
)

// reading is the state of one evaluation: the event and the fields found in it. It is
// the evaluation's activation, through which the plan's nodes access it.
type reading struct {
	event  transform.Event
	plan   *plan
	fields []field
	done   bool // fields has been filled in
	work   int  // counted so far; see maxWork
}

func newReading(p *plan) *reading { return &reading{plan: p, fields: make([]field, p.slots)} }

func (r *reading) begin(e transform.Event) { r.event, r.done, r.work = e, false, 0 }

// end drops the references to the event, which must not stay in the pool.
func (r *reading) end() {
	r.event = transform.Event{}
	clear(r.fields)
}

// field returns the result for a field. The event's bytes are read when the first field
// is needed: attributes alone decide many events.
func (r *reading) field(slot int) *field {
	if !r.done {
		r.plan.fields.find(r.event.Data(), r.fields)
		r.done = true
	}
	return &r.fields[slot]
}

// spend counts work. Beyond the limit it returns an error value: CEL then finishes the
// loop without its steps, which costs little.
func (r *reading) spend(work int) ref.Val {
	if r.work += work; r.work > maxWork {
		return types.NewErr("the evaluation was stopped: its loops and patterns take too long for this event")
	}
	return nil
}

// readingName is not a valid name in an expression.
const readingName = "@reading"

// ResolveName implements interpreter.Activation.
func (r *reading) ResolveName(name string) (any, bool) { return r, name == readingName }

// Parent implements interpreter.Activation.
func (*reading) Parent() interpreter.Activation { return nil }

func readingOf(vars interpreter.Activation) *reading {
	r, _ := vars.ResolveName(readingName) // beneath the variables of all loops
	return r.(*reading)
}
