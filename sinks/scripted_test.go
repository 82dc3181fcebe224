package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// result is what a scripted target does with one event.
type result int

const (
	accepts result = iota
	loses          // accepts it, but the acknowledgement is lost
	fails
)

// form is the form in which a scripted sink reports the results of a batch.
type form int

const (
	byEvent form = iota
	asOne
	miscounted // EventErrors of another length
	hanging    // blocks until its context is done
)

// answer is what a scripted sink does with one Send.
type answer struct {
	form       form
	results    []result // of the events in turn
	class      failure.Class
	retryAfter time.Duration
	duration   time.Duration
}

var answers = rapid.Custom(func(t *rapid.T) answer {
	return answer{
		form:       rapid.SampledFrom([]form{byEvent, byEvent, byEvent, asOne, asOne, miscounted, hanging}).Draw(t, "form"),
		results:    rapid.SliceOfN(rapid.SampledFrom([]result{accepts, accepts, accepts, loses, fails}), 1, 8).Draw(t, "results"),
		class:      rapid.SampledFrom([]failure.Class{"", failure.Transient, failure.Throttled, failure.Halted, failure.Rejected}).Draw(t, "class"),
		retryAfter: rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Minute}).Draw(t, "retry after"),
		duration:   rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Minute}).Draw(t, "duration"),
	}
})

func (a answer) err() error {
	if a.class == "" {
		return errors.New("an error without a class")
	}
	return &failure.Error{Class: a.class, RetryAfter: a.retryAfter, Err: fmt.Errorf("scripted: %s", a.class)}
}

// poison is a permanent defect of an event.
type poison int

const (
	harmless poison = iota
	rejected        // by every Send
	failing         // in every Send except redeliveries
)

// scripted is the sink of a sinkModel. It answers according to the model's script.
type scripted struct{ *sinkModel }

func (o *sinkModel) opener() (sinks.Sink, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open != nil {
		o.breaks("a second sink was opened")
	}
	o.open = &scripted{o}
	return o.open, nil
}

func (s *scripted) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != s {
		s.breaks("a sink was closed that is not the open one")
	}
	s.open = nil
	return nil
}

func (s *scripted) Send(ctx context.Context, events []transform.Event) error {
	a, released := s.begin(ctx, events)
	switch {
	case a.form == hanging:
		select {
		case <-ctx.Done():
		case <-released:
		}
		return errors.New("no answer")
	case a.duration > 0:
		select {
		case <-time.After(a.duration):
		case <-ctx.Done():
		case <-released:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deliver(a, events)
}

// begin checks that Send is allowed, and returns its answer and the channel that ends its
// wait.
func (s *scripted) begin(ctx context.Context, events []transform.Event) (a answer, released <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running || s.open != s || ctx.Err() != nil {
		s.breaks("a Send while running: %v, on the open sink: %v, with the context error %v", s.running, s.open == s, ctx.Err())
	}
	s.checkBatch(events)
	a = answer{form: s.well, results: []result{accepts}}
	switch {
	case s.down != nil:
		a = *s.down
	case len(s.script) > 0:
		a, s.script = s.script[0], s.script[1:]
	}
	if s.sendsTooOften() {
		return answer{form: asOne, results: []result{fails}, class: failure.Throttled, retryAfter: time.Hour}, s.released
	}
	if s.redelivers() {
		// The runner's two workers wait for each other to send. While one waits, the
		// clock of the test stands still.
		a.duration = 0
		if a.form == hanging {
			a.form = miscounted
		}
	}
	return a, s.released
}

// deliver decides the result of each event. As sinks must, it tries no event after a failed
// one of the same key. It is called with mu held.
func (s *scripted) deliver(a answer, events []transform.Event) error {
	each := make(failure.EventErrors, len(events))
	stopped := map[string]bool{}
	failed, poisoned := false, false
	for i, e := range events {
		result := a.results[i%len(a.results)]
		switch {
		case e.PartitionKey != "" && stopped[e.PartitionKey]:
			each[i] = failure.ErrNotTried
		case s.poison[e.ID] == rejected:
			each[i] = failure.Errorf(failure.Rejected, "event %s is poison", e.ID)
			poisoned = true
		case s.poison[e.ID] == failing && !e.Redelivered:
			each[i], stopped[e.PartitionKey] = errors.New("500 internal server error"), true
		case result == accepts:
			s.take(e)
		default:
			if result == loses {
				s.take(e)
			}
			each[i], stopped[e.PartitionKey] = a.err(), true
		}
		failed = failed || each[i] != nil
	}
	as := a.err()
	if poisoned && a.class != failure.Halted { // it does not report which event is poison
		as = failure.Errorf(failure.Rejected, "one of %d events is poison", len(events))
	}
	switch {
	case failed && a.form == byEvent:
		for i, err := range each {
			if err == nil {
				s.acknowledge(events[i])
			}
			s.refuse(err, events[i])
		}
		return each
	case failed && a.form == miscounted:
		return append(each, nil)
	case failed:
		for _, e := range events {
			s.refuse(as, e)
		}
		return as
	}
	for _, e := range events {
		s.acknowledge(e)
	}
	return nil
}
