// Package sinks delivers the journal's events to their targets. It defines the
// Sink interface, the classes of delivery errors, and the Runner, which delivers
// the events from a sink's cursor to the end of the journal.
//
// A batch is delivered by a loop (see deliver): it commits the completed events, makes one pass
// over the pending ones, and waits, if events are left, until the backoff ends (retrying) or the
// sink is probed again (halted). A shutdown ends it after a last commit, and so does the lag policy
// when it skips the batch. A pause takes effect before a commit.
//
// A pass (see pass) finds out whose fault a failure is. An event moves
// from the journal to one of these:
//
//	journal ─┬─ acknowledged
//	         ├─ rejected ─────────────────────────────────► dead letter
//	         └─ fails while others are accepted ─► parked ─┬─ acknowledged
//	                                                ▲   │  ├─ rejected ─► dead letter
//	                                                └───┘  └─ given up ─► dead letter
//	                                           fails again
//
// A parked event, and the later ones of its ordering key, hold nothing else up. Failures of
// the target, or of the part of it that an event goes to, never count against the event.
package sinks

import (
	"context"
	"time"

	"ndrbridge/transform"
)

// Sink delivers events to one target. A runner calls its methods from one
// goroutine at a time.
//
// Every implementation passes sinktest.
type Sink interface {
	// Send delivers one or more events. Events with the same PartitionKey are
	// delivered in their order. It returns nil only if every event is durable
	// downstream, that is, acknowledged by the means of the target's protocol. It
	// does not retry, and does not wait longer than the sink's timeout.
	//
	// A *failure.Error carries the class of the failure, failure.EventErrors the result of each
	// event; any other error is a transient failure of all events. After an error,
	// events may or may not have arrived: all but those with a nil entry in
	// failure.EventErrors are sent again. When ctx is done, Send returns promptly and
	// leaves nothing running in the background.
	//
	// Send does not retain events or their bytes after it returns.
	Send(ctx context.Context, events []transform.Event) error
	// Close releases the sink's resources. Send is not called afterwards.
	Close() error
}

// opener opens a sink. It is called at the start and again after a halt, so that
// credentials are re-read. It does not contact the target.
type opener func() (Sink, error)

// Trial says what the Check of a sink tries. Check sends no event, and must not be called
// concurrently with Send.
type Trial struct {
	// Sure are events that the sink will send, Possible events that it may send: what only these
	// need may be missing.
	Sure, Possible []transform.Event
	// RetryMax is the longest wait before a failed event is sent again.
	RetryMax time.Duration
	// Reads is the subject or topic to receive from instead of sending; empty: the sink sends.
	// Durable is the consumer that receives.
	Reads, Durable string
	// Now returns the time at which certificates must be valid.
	Now func() time.Time
}
