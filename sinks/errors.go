package sinks

import (
	"errors"
	"fmt"
	"time"
)

// Class says what a failed delivery means for the events and for the sink. The
// set is closed; the words are metric labels.
type Class string

// The classes. What is unknown is Transient: an event is never given up for an
// error that nobody understood.
const (
	// Transient may pass by itself: it is tried again after a growing wait.
	Transient Class = "transient"
	// Throttled asks for a wait.
	Throttled Class = "throttled"
	// Rejected means that the target will never take this event: it goes to the
	// dead letters.
	Rejected Class = "rejected"
	// Halted means that the sink is misconfigured or not allowed: no event is
	// at fault, and the sink stops until it is fixed.
	Halted Class = "halted"
)

// Error is a failed delivery with its class.
type Error struct {
	Class Class
	// RetryAfter is the least wait that the target asked for; 0: none.
	RetryAfter time.Duration
	// Unsent is set on a Rejected error of an event that the bridge itself refused,
	// before anything of it was sent. It says nothing about the target.
	Unsent bool
	// Err says what was tried and what came back. It holds no secret.
	Err error
}

// Error returns Err's text.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error of a class. The format is fmt.Errorf's.
func Errorf(class Class, format string, args ...any) *Error {
	return &Error{Class: class, Err: fmt.Errorf(format, args...)}
}

// Unsendable makes the Rejected Error of an event that the bridge itself refuses to
// send: too large for a configured bound, or one that a template fails for. The
// format is fmt.Errorf's.
func Unsendable(format string, args ...any) *Error {
	return &Error{Class: Rejected, Unsent: true, Err: fmt.Errorf(format, args...)}
}

// IsUnsent reports whether an error is that of an event that was refused before
// anything of it was sent.
func IsUnsent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Unsent
}

// ClassOf returns the class of a failed delivery, and the wait that was asked
// for. An error that says nothing of its class is Transient.
func ClassOf(err error) (Class, time.Duration) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class, e.RetryAfter
	}
	return Transient, 0
}

// EventErrors is what a sink returns when it knows the result of each event: nil
// for one that is durable downstream. It has one entry for each event that was
// sent, in their order, and at least one is not nil. An event that was not
// tried has a Transient error.
type EventErrors []error

// Error tells how many events failed, and the first failure.
func (e EventErrors) Error() string {
	failed, first := 0, error(nil)
	for _, err := range e {
		if err == nil {
			continue
		}
		if failed++; first == nil {
			first = err
		}
	}
	return fmt.Sprintf("%d of %d events: %v", failed, len(e), first)
}

// ErrNotTried is the error of events that were held back behind one that
// failed.
var ErrNotTried = errors.New("not tried: an event before it failed")
