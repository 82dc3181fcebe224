package sinks

import "time"

// State is the state of a runner.
type State string

// The states of a runner.
const (
	StateRunning  State = "running"  // delivering, or waiting for events
	StateRetrying State = "retrying" // waiting to try a batch again
	StateHalted   State = "halted"   // misconfigured, not authorized, or its dead letters are full; probing
	StatePaused   State = "paused"   // by an operator
	StateStuck    State = "stuck"    // a Send does not return
)

// Severity returns the rank of a state that a worker has, from 0 for StateRunning. It is the
// value of the state metric.
func (s State) Severity() int {
	return map[State]int{StateRunning: 0, StateRetrying: 1, StateHalted: 2, StatePaused: 3, StateStuck: 4}[s]
}

// Status is the status of a sink.
type Status struct {
	Sink  string
	State State
	Since time.Time // of State
	// Error is the text of the last failure; empty if State is StateRunning.
	Error string
	// Cause is the failure in a few words, as failure.CauseOf returns it.
	Cause string
	// NextAttempt is when delivery is tried again; zero unless State is StateRetrying or
	// StateHalted.
	NextAttempt time.Time
	// LastDelivery is when an event was last acknowledged by a target of this Runner; zero:
	// none was.
	LastDelivery time.Time
	// Delivered counts the acknowledged events; redeliveries count again. It
	// continues the count of an earlier Runner of the sink with the same Metrics.
	Delivered uint64
	// Match counts the results of the sink's match; nil: it has none.
	Match *MatchStatus
}

// MatchStatus counts the results of a sink's match. An event that is read again, because
// it is redelivered or was not committed, counts again. The counts continue those of an
// earlier Runner of the sink with the same Metrics.
type MatchStatus struct {
	Matched, Filtered uint64
	// ConsecutiveFiltered counts the events that did not match since one last did, and
	// FilteredSince is when this Runner read the first of them; zero if there is none.
	ConsecutiveFiltered uint64
	FilteredSince       time.Time
	// Errors counts the events for which match failed, which are neither, and Error is
	// the text of the last failure of this Runner, up to 500 bytes; empty: it has not
	// failed.
	Errors uint64
	Error  string
}
