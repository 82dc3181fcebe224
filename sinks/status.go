package sinks

import "time"

// State is what a runner is doing.
type State string

// The states of a runner.
const (
	StateRunning  State = "running"  // delivering, or waiting for events
	StateRetrying State = "retrying" // waiting to try a batch again
	StateHalted   State = "halted"   // misconfigured or not allowed; probing slowly
	StatePaused   State = "paused"   // by an operator
)

// Severity orders the states, from 0, StateRunning; it is the value of a metric.
func (s State) Severity() int {
	return map[State]int{StateRunning: 0, StateRetrying: 1, StateHalted: 2, StatePaused: 3}[s]
}

// Status is how a sink is doing.
type Status struct {
	Sink  string
	State State
	Since time.Time // of State
	// Error tells the last failure; empty while State is StateRunning.
	Error string
	// Delivered counts the events that the target acknowledged, again where they
	// came again. It goes on where another Runner of the sink with the same Metrics
	// ended.
	Delivered uint64
}
