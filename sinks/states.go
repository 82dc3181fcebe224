package sinks

// deliveryState is a state of the delivery of a batch. The package's comment draws
// the states and their transitions.
type deliveryState string

// The states. Each is implemented by a method of delivery; next is the only place
// that leads from one to another.
const (
	// committing commits the completed events, and waits while the sink is paused.
	committing deliveryState = "committing"
	// sending makes one pass over the pending events: see pass.
	sending deliveryState = "sending"
	// retrying waits before the next pass.
	retrying deliveryState = "retrying"
	// halted waits for the sink's configuration or target to be fixed.
	halted deliveryState = "halted"

	// completed is the end: every event is acknowledged, dead-lettered or parked, and
	// committed.
	completed deliveryState = "completed"
	// skipped is the end: the lag policy moved the queue past the batch.
	skipped deliveryState = "skipped"
	// stopped is the end of a delivery that was interrupted.
	stopped deliveryState = "stopped"
)

// outcome is the reason for a transition to the next state.
type outcome string

const (
	// Of committing.
	outcomePending outcome = "pending" // some events are to be sent
	outcomeAllDone outcome = "all done"
	outcomeNoSpace outcome = "no space" // for events that are to be parked

	// Of sending.
	outcomeSent        outcome = "sent"        // no event is left
	outcomeSomeLeft    outcome = "some left"   // and others were acknowledged, dead-lettered or parked
	outcomeNoneTaken   outcome = "none taken"  // the target accepted nothing
	outcomeThrottled   outcome = "throttled"   // the target asks the sink to wait
	outcomeHalts       outcome = "halts"       // the sink is at fault
	outcomeNoLease     outcome = "no lease"    // nothing may be sent, or the last call was cut short
	outcomeInterrupted outcome = "interrupted" // also of committing

	// Of retrying and halted.
	outcomeWaited outcome = "waited"

	// Of committing, retrying and halted.
	outcomeSkipped outcome = "skipped" // by the lag policy
)

// next returns the state that follows s after o.
func (s deliveryState) next(o outcome) deliveryState {
	switch s {
	case committing:
		switch o {
		case outcomePending:
			return sending
		case outcomeAllDone:
			return completed
		case outcomeNoSpace:
			return retrying
		case outcomeSkipped:
			return skipped
		}
	case sending:
		switch o {
		case outcomeSent:
			return committing
		case outcomeSomeLeft, outcomeNoneTaken, outcomeThrottled, outcomeNoLease:
			return retrying
		case outcomeHalts:
			return halted
		}
	case retrying, halted:
		switch o {
		case outcomeWaited:
			return committing
		case outcomeSkipped:
			return skipped
		}
	}
	return stopped
}
