package match

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"ndrbridge/transform"
)

// reading is the event of one evaluation, and what was found of its fields. It is
// the evaluation's activation, through which the nodes of the plan get at it.
type reading struct {
	event  transform.Event
	plan   *plan
	fields []field
	done   bool // fields are found
	work   int  // that was counted; see maxWork
}

func newReading(p *plan) *reading { return &reading{plan: p, fields: make([]field, p.slots)} }

func (r *reading) begin(e transform.Event) { r.event, r.done, r.work = e, false, 0 }

// end lets go of the event, which the pool must not keep.
func (r *reading) end() {
	r.event = transform.Event{}
	clear(r.fields)
}

// field returns what was found of a field. The bytes are read when the first field
// is asked for: many events are decided by their attributes.
func (r *reading) field(slot int) *field {
	if !r.done {
		r.plan.fields.find(r.event.Data(), r.fields)
		r.done = true
	}
	return &r.fields[slot]
}

// spend counts work. It returns an error value from the limit on: CEL goes through
// the rest of a loop then, which costs little without its steps.
func (r *reading) spend(work int) ref.Val {
	if r.work += work; r.work > maxWork {
		return types.NewErr("it was stopped: its loops and patterns take too long over this event")
	}
	return nil
}

// readingName is no name that an expression can use.
const readingName = "@reading"

// ResolveName implements interpreter.Activation.
func (r *reading) ResolveName(name string) (any, bool) { return r, name == readingName }

// Parent implements interpreter.Activation.
func (*reading) Parent() interpreter.Activation { return nil }

func readingOf(vars interpreter.Activation) *reading {
	r, _ := vars.ResolveName(readingName) // beneath the variables of all loops
	return r.(*reading)
}
