package sinks

import (
	"fmt"
	"log/slog"
	"sync"

	"ndrbridge/transform"
)

// MatchErrorPolicy is what happens to an event that a sink's match fails for. The
// set is closed; the words are those of the configuration.
type MatchErrorPolicy string

// The policies. The zero value sends.
const (
	// OnMatchErrorSend sends the event: one too many is better than one lost.
	OnMatchErrorSend MatchErrorPolicy = "send"
	// OnMatchErrorDrop filters the event out.
	OnMatchErrorDrop MatchErrorPolicy = "drop"
	// OnMatchErrorDeadLetter keeps the event among the dead letters, from where it is
	// sent when an operator requeues it.
	OnMatchErrorDeadLetter MatchErrorPolicy = "dead_letter"
)

// matcher decides which events a sink is sent.
type matcher struct {
	match   func(transform.Event) (bool, error)
	policy  MatchErrorPolicy
	metrics sinkMetrics
	log     *slog.Logger
	logged  sync.Once
}

// matches reports whether an event is to be sent. The error is that of an event that
// is to become a dead letter.
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
