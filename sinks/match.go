package sinks

import (
	"fmt"
	"log/slog"
	"sync"

	"ndrbridge/transform"
)

// MatchErrorPolicy selects what happens to an event for which a sink's match
// fails. The set is closed; the values are those of the configuration.
type MatchErrorPolicy string

// The policies. The zero value means OnMatchErrorSend.
const (
	// OnMatchErrorSend sends the event: an unwanted event is better than a lost one.
	OnMatchErrorSend MatchErrorPolicy = "send"
	// OnMatchErrorDrop filters the event out.
	OnMatchErrorDrop MatchErrorPolicy = "drop"
	// OnMatchErrorDeadLetter dead-letters the event. It is sent if an operator
	// requeues it.
	OnMatchErrorDeadLetter MatchErrorPolicy = "dead_letter"
)

// matcher decides which events are sent to a sink.
type matcher struct {
	match   func(transform.Event) (bool, error)
	policy  MatchErrorPolicy
	metrics sinkMetrics
	log     *slog.Logger
	logged  sync.Once
}

// matches reports whether an event is to be sent. It returns an error if the event
// is to be dead-lettered.
func (m *matcher) matches(e transform.Event) (bool, error) {
	matches, err := m.match(e)
	if err == nil {
		return matches, nil
	}
	m.metrics.matchErrors.Inc()
	m.logged.Do(func() {
		policy := m.policy
		if policy == "" {
			policy = OnMatchErrorSend
		}
		m.log.Warn("match failed for an event; later failures are only counted", "on_error", policy, "error", err)
	})
	switch m.policy {
	case OnMatchErrorDrop:
		return false, nil
	case OnMatchErrorDeadLetter:
		return false, fmt.Errorf("match failed: %w", err)
	default:
		return true, nil
	}
}
