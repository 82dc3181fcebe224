// Package sinks delivers the journal's events: what a sink is, what its errors
// mean, and the runner that takes a sink from where its cursor stands to the
// journal's end.
package sinks

import (
	"context"

	"ndrbridge/transform"
)

// Sink delivers events to one target. A runner calls its methods from one
// goroutine at a time.
//
// Every implementation passes sinktest.
type Sink interface {
	// Send delivers the events, one or more, in their order as far as they
	// share a PartitionKey, and returns nil only when every one of them is
	// durable downstream: acknowledged by whatever the target's protocol calls
	// so. It does not retry and does not wait longer than the sink's timeout.
	//
	// An *Error says what kind of failure it was, EventErrors which events
	// failed; any other error is taken as a transient failure of all the
	// events. After an error, events may or may not have arrived: those that
	// the error does not clear are sent again. When ctx ends, Send returns
	// promptly, and nothing of it goes on behind its back.
	//
	// Send does not keep events or their bytes after it returned.
	Send(ctx context.Context, events []transform.Event) error
	// Close gives up what the sink holds. Send is not called afterwards.
	Close() error
}

// Opener makes a sink again. It is called at the start and after a halt, so
// that it reads its credentials again; it does not contact the target.
type Opener func() (Sink, error)
