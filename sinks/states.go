package sinks

// deliveryState is a state of the delivery of a batch. The package's comment draws
// the states and their transitions.
type deliveryState string

// The states. Each is implemented by a method of delivery; next is the only place
// that leads from one to another.
const (
	// committing commits the completed events, waits while the sink is paused, and
	// selects how the others are sent.
	committing deliveryState = "committing"

	// sending sends the pending events in their order.
	sending deliveryState = "sending"
	// bisecting halves the events of a call that the target rejected as a whole, until
	// the rejected ones are found.
	bisecting deliveryState = "bisecting"
	// isolating makes one pass over a batch that keeps failing, halving what fails, to
	// see whether only some of its events fail.
	isolating deliveryState = "isolating"
	// quarantining makes passes over a batch in which events failed individually while
	// others were delivered, until each of these is delivered or given up.
	quarantining deliveryState = "quarantining"
	// probing sends single events to a sink that rejected everything.
	probing deliveryState = "probing"

	// retrying waits before the next attempt.
	retrying deliveryState = "retrying"
	// halted waits for the sink's configuration or target to be fixed.
	halted deliveryState = "halted"

	// completed is the end: every event is acknowledged or dead-lettered, and committed.
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
	outcomePending           outcome = "pending"            // some events are to be sent
	outcomeKeepsFailing      outcome = "keeps failing"      // isolating the batch is due
	outcomeQuarantined       outcome = "quarantined"        // some events failed individually while others were delivered
	outcomeRejectsEverything outcome = "rejects everything" // the last events were all rejected
	outcomeAllDone           outcome = "all done"

	// Of an attempt: sending, bisecting, isolating, quarantining or probing.
	outcomeMore             outcome = "more"                // a call was successful, and others may follow
	outcomeSent             outcome = "sent"                // nothing failed
	outcomeRejectedAsAWhole outcome = "rejected as a whole" // it is not known which events were
	outcomeSomeFailed       outcome = "some failed"         // and others were delivered
	outcomeFailed           outcome = "failed"              // and none was delivered
	outcomeThrottled        outcome = "throttled"
	outcomeHalts            outcome = "halts"    // the sink is at fault
	outcomeNoLease          outcome = "no lease" // nothing may be sent, or the last call was cut short
	outcomeInterrupted      outcome = "interrupted"

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
		case outcomeKeepsFailing:
			return isolating
		case outcomeQuarantined:
			return quarantining
		case outcomeRejectsEverything:
			return probing
		case outcomeAllDone:
			return completed
		case outcomeSkipped:
			return skipped
		}
	case probing: // any failure of the target halts: the rejections still stand
		switch o {
		case outcomeSent:
			return committing
		case outcomeHalts:
			return halted
		case outcomeNoLease:
			return retrying
		}
	case sending, bisecting, isolating, quarantining:
		switch o {
		case outcomeMore:
			return s
		case outcomeRejectedAsAWhole:
			return bisecting
		case outcomeSent:
			return committing
		case outcomeSomeFailed, outcomeFailed, outcomeThrottled, outcomeNoLease:
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
