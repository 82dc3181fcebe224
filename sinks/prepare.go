package sinks

import (
	"cmp"
	"fmt"
	"sync"

	"ndrbridge/checkpoint"
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

// preparer filters a sink's events and brings them into the form in which they are
// sent, according to its options.
type preparer struct {
	o       *Options
	metrics sinkMetrics
	logged  sync.Once // a failure of Match
}

// add appends a record to b: prepared, filtered, or as a dead letter if Match or
// Prepare failed. A requeued dead letter is never filtered: an operator asked for
// its delivery, and filtering would lose it.
func (p *preparer) add(b *deliveryBatch, r checkpoint.Redelivered) {
	event, err := r.Event, error(nil)
	if redelivery := r.Offset.Item; redelivery != 0 {
		event = event.Redeliver(redelivery)
	}
	if requeued := r.Seq == 0; p.o.Match != nil && !requeued {
		switch matches, err := p.matches(event); {
		case err != nil:
			b.add(r, transform.Event{}, err)
			return
		case !matches:
			b.addFiltered(r)
			return
		}
	}
	if p.o.Prepare != nil {
		if event, err = p.o.Prepare(event); err != nil {
			err = fmt.Errorf("prepare the event: %w", err)
		}
	}
	b.add(r, event, err)
}

// matches reports whether an event is to be sent. It returns an error if the event
// is to be dead-lettered.
func (p *preparer) matches(e transform.Event) (bool, error) {
	matches, err := p.o.Match(e)
	if err == nil {
		return matches, nil
	}
	policy := cmp.Or(p.o.OnMatchError, OnMatchErrorSend)
	p.metrics.matchErrors.Inc()
	p.logged.Do(func() {
		p.o.Log.Warn("match failed for an event; later failures are only counted", "on_error", policy, "error", err)
	})
	if policy == OnMatchErrorDeadLetter {
		return false, fmt.Errorf("match failed: %w", err)
	}
	return policy != OnMatchErrorDrop, nil
}
