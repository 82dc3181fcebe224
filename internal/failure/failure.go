// Package failure classifies the errors of deliveries: the class of an error decides how a sink
// goes on, and its scope what may be at fault.
package failure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Class classifies a failed delivery by its meaning for the events and the sink.
// The set is closed; the values are metric labels.
type Class string

// The classes. An unknown error is Transient, so that no event is dead-lettered at once for
// an error that the sink does not understand.
const (
	// Transient is a failure that may go away by itself: the sink retries with
	// exponential backoff.
	Transient Class = "transient"
	// Throttled means that the target asks the sink to wait.
	Throttled Class = "throttled"
	// Rejected means that the target will never accept the event, which is
	// dead-lettered.
	Rejected Class = "rejected"
	// Halted means that the sink is misconfigured or not authorized: no event is at
	// fault, and the sink only probes until that is fixed.
	Halted Class = "halted"
)

// Scope is the extent of a failure: an event, its request, a part of the target or the whole
// target. It decides whether a Transient failure may count against an event. The set is closed.
type Scope string

const (
	// ScopeEvent means that the failure may be the event's fault. It is the scope of an
	// unknown error. If the error is not one of EventErrors, it may be the fault of any event
	// of the call.
	ScopeEvent Scope = ""
	// ScopeRequest, in EventErrors, means that the event was in a failed request with others,
	// any of which may be at fault.
	ScopeRequest Scope = "request"
	// ScopePart means that the part of the target that the event goes to is not available,
	// such as a partition or an index. No event is at fault.
	ScopePart Scope = "part"
	// ScopeTarget means that the target cannot be reached or is not available. No event is at
	// fault. Throttled and Halted errors have it unless they have ScopePart.
	ScopeTarget Scope = "target"
)

// Error is a failed delivery with its class and scope.
type Error struct {
	Class Class
	Scope Scope
	// RetryAfter is the minimum wait that the target asked for; 0: none.
	RetryAfter time.Duration
	// Unsent marks a Rejected error of an event that the bridge refused before
	// sending any of it. Such an error proves nothing about the target.
	Unsent bool
	// Cause is what CauseOf returns, if Err does not wrap the error that it follows from.
	Cause string
	// Err describes the request and the answer. It contains no secret.
	Err error
}

// Error returns Err's text.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error of a class, formatted like fmt.Errorf.
func Errorf(class Class, format string, args ...any) *Error {
	return &Error{Class: class, Err: fmt.Errorf(format, args...)}
}

// Unavailable returns the Transient Error of a target (ScopeTarget) or a part of it (ScopePart)
// that is not available. It is formatted like fmt.Errorf.
func Unavailable(scope Scope, format string, args ...any) *Error {
	return &Error{Class: Transient, Scope: scope, Err: fmt.Errorf(format, args...)}
}

// Unsendable returns the Rejected Error, with Unsent set, of an event that the
// bridge refuses to send because it exceeds a configured size or a template fails
// for it. It is formatted like fmt.Errorf.
func Unsendable(format string, args ...any) *Error {
	return &Error{Class: Rejected, Unsent: true, Err: fmt.Errorf(format, args...)}
}

// IsUnsent reports whether err belongs to an event that was refused before any of
// it was sent.
func IsUnsent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Unsent
}

// ClassOf returns the class of a failed delivery and the minimum wait that the
// target asked for. An error without a class is Transient.
func ClassOf(err error) (Class, time.Duration) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class, e.RetryAfter
	}
	return Transient, 0
}

// ScopeOf returns the scope of a failed delivery. An error without a class has ScopeEvent,
// unless it is that of a context that is done.
func ScopeOf(err error) Scope {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return ScopeTarget
	case !ok || e.Class == Rejected:
		return ScopeEvent
	case e.Scope == ScopeEvent && (e.Class == Throttled || e.Class == Halted):
		return ScopeTarget
	}
	return e.Scope
}

// MostSevere returns the error that decides how a sink goes on, the first of several that are
// alike: one that halts, else the one that throttles for the longest time, else a transient one.
// It is nil if all errors are.
func MostSevere(errs ...error) error {
	var worst error
	for _, err := range errs {
		if err != nil && (worst == nil || compareSeverity(err, worst) > 0) {
			worst = err
		}
	}
	return worst
}

func compareSeverity(a, b error) int {
	order := []Class{Rejected, Transient, Throttled, Halted}
	class, wait := ClassOf(a)
	otherClass, otherWait := ClassOf(b)
	return cmp.Or(cmp.Compare(slices.Index(order, class), slices.Index(order, otherClass)), cmp.Compare(wait, otherWait))
}

// EventErrors holds the result of each event of a Send, in their order: nil for an
// event that is durable downstream, at least one of them not nil. An event that was
// not tried has a Transient error.
type EventErrors []error

// Error returns the number of failed events and the text of the first failure.
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

// OrNil returns e as the error of a Send, or nil if all entries are nil.
func (e EventErrors) OrNil() error {
	if slices.ContainsFunc(e, func(err error) bool { return err != nil }) {
		return e
	}
	return nil
}

// ErrNotTried is the error of events that were not sent because an earlier one
// failed.
var ErrNotTried = errors.New("not tried: an event before it failed")

// Advised is an error with advice on how to fix its cause.
type Advised struct {
	Err error
	// To is the advice, without a full stop. It may be empty.
	To string
}

// Advise returns an Error of a class with advice, which may be empty.
func Advise(class Class, advice string, err error) *Error {
	return &Error{Class: class, Err: &Advised{Err: err, To: advice}}
}

// Error returns the text of e.Err, followed by a semicolon and the advice, if any.
func (e *Advised) Error() string {
	if e.To == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + "; " + e.To
}

// Advice returns e.To.
func (e *Advised) Advice() string { return e.To }

// Unwrap returns e.Err.
func (e *Advised) Unwrap() error { return e.Err }
