package sinks

import (
	"cmp"

	"ndrbridge/transform"
)

// MatchErrorPolicy selects what happens to an event for which a sink's match
// fails. The set is closed; the values are those of the configuration.
type MatchErrorPolicy string

// The policies. The zero value means onMatchErrorSend.
const (
	// onMatchErrorSend sends the event: an unwanted event is better than a lost one.
	onMatchErrorSend MatchErrorPolicy = "send"
	// onMatchErrorDrop filters the event out.
	onMatchErrorDrop MatchErrorPolicy = "drop"
	// onMatchErrorDeadLetter dead-letters the event. It is sent if an operator
	// requeues it.
	onMatchErrorDeadLetter MatchErrorPolicy = "dead_letter"
)

// Verdict is what a sink does with an event. The set is closed.
type Verdict string

// The verdicts.
const (
	VerdictSend       Verdict = "send"
	VerdictFilter     Verdict = "filter" // the event is not sent
	VerdictDeadLetter Verdict = "dead_letter"
)

// Selection decides what a sink does with events.
type Selection struct {
	// Match reports whether an event is to be sent; nil: all events are.
	Match func(transform.Event) (bool, error)
	// OnError selects what happens to an event for which Match fails.
	OnError MatchErrorPolicy
	// Notify means that trouble of the bridge is sent whatever Match is: see
	// transform.Event.IsTrouble.
	Notify bool
}

// Decide returns the verdict about an event. The error is that of Match; the verdict
// holds regardless.
func (s Selection) Decide(e transform.Event) (Verdict, error) {
	if s.Match == nil || s.Notify && e.IsTrouble() {
		return VerdictSend, nil
	}
	matches, err := s.Match(e)
	switch {
	case err == nil && matches:
		return VerdictSend, nil
	case err == nil:
		return VerdictFilter, nil
	}
	switch cmp.Or(s.OnError, onMatchErrorSend) {
	case onMatchErrorDrop:
		return VerdictFilter, err
	case onMatchErrorDeadLetter:
		return VerdictDeadLetter, err
	}
	return VerdictSend, err
}
