package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// result is what a scripted target does with one event.
type result int

const (
	takes result = iota
	loses        // takes it, and its acknowledgement is lost
	fails
)

// form is how a scripted sink tells what became of a batch.
type form int

const (
	byEvent form = iota
	asOne
	miscounted // EventErrors of another length
	hanging    // says nothing until its context ends
)

// answer is what a scripted sink does with one Send.
type answer struct {
	form       form
	results    []result // of the events in turn
	class      sinks.Class
	retryAfter time.Duration
	takes      time.Duration
}

var answers = rapid.Custom(func(t *rapid.T) answer {
	return answer{
		form:       rapid.SampledFrom([]form{byEvent, byEvent, byEvent, asOne, asOne, miscounted, hanging}).Draw(t, "form"),
		results:    rapid.SliceOfN(rapid.SampledFrom([]result{takes, takes, takes, loses, fails}), 1, 8).Draw(t, "results"),
		class:      rapid.SampledFrom([]sinks.Class{"", sinks.Transient, sinks.Throttled, sinks.Halted, sinks.Rejected}).Draw(t, "class"),
		retryAfter: rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Minute}).Draw(t, "retry after"),
		takes:      rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Minute}).Draw(t, "takes"),
	}
})

func (a answer) err() error {
	if a.class == "" {
		return errors.New("an error that says nothing of its class")
	}
	return &sinks.Error{Class: a.class, RetryAfter: a.retryAfter, Err: fmt.Errorf("scripted: %s", a.class)}
}

// poison is what a target has against an event for good.
type poison int

const (
	harmless poison = iota
	rejected        // as often as it comes
	failing         // as often as it comes in its turn; not when it is redelivered
)

// scripted is the sink of an outlet: it does as the outlet's script says.
type scripted struct{ *outlet }

func (o *outlet) opener() (sinks.Sink, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open != nil {
		o.breaks("a sink was opened beside another")
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
	a, hurried := s.begin(ctx, events)
	switch {
	case a.form == hanging:
		select {
		case <-ctx.Done():
		case <-hurried:
		}
		return errors.New("no answer")
	case a.takes > 0:
		select {
		case <-time.After(a.takes):
		case <-ctx.Done():
		case <-hurried:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deliver(a, events)
}

// begin checks that a Send may be, and returns what to do in it, and what ends
// its wait.
func (s *scripted) begin(ctx context.Context, events []transform.Event) (a answer, hurried <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running || s.open != s || ctx.Err() != nil {
		s.breaks("a Send while running: %v, on the open sink: %v, with a context that says %v", s.running, s.open == s, ctx.Err())
	}
	s.checkBatch(events)
	a = answer{form: s.well, results: []result{takes}}
	switch {
	case s.down != nil:
		a = *s.down
	case len(s.script) > 0:
		a, s.script = s.script[0], s.script[1:]
	}
	if s.storms() {
		return answer{form: asOne, results: []result{fails}, class: sinks.Throttled, retryAfter: time.Hour}, s.hurried
	}
	if s.redelivers() {
		// The runner's two workers send one after the other, by a lock: while one
		// waits for that, the clock of the test stands still.
		a.takes = 0
		if a.form == hanging {
			a.form = miscounted
		}
	}
	return a, s.hurried
}

// deliver gives each event its result as a sink must: nothing of a key is tried
// behind what failed. It is called with mu held.
func (s *scripted) deliver(a answer, events []transform.Event) error {
	each := make(sinks.EventErrors, len(events))
	stopped := map[string]bool{}
	failed, poisoned := false, false
	for i, e := range events {
		what := a.results[i%len(a.results)]
		switch {
		case e.PartitionKey != "" && stopped[e.PartitionKey]:
			each[i] = sinks.ErrNotTried
		case s.poison[e.ID] == rejected:
			each[i] = sinks.Errorf(sinks.Rejected, "event %s is poison", e.ID)
			poisoned = true
		case s.poison[e.ID] == failing && !e.Redelivered:
			each[i], stopped[e.PartitionKey] = errors.New("500 internal server error"), true
		case what == takes:
			s.take(e)
		default:
			if what == loses {
				s.take(e)
			}
			each[i], stopped[e.PartitionKey] = a.err(), true
		}
		failed = failed || each[i] != nil
	}
	as := a.err()
	if poisoned && a.class != sinks.Halted { // it saw the poison, and not where
		as = sinks.Errorf(sinks.Rejected, "one of %d events is poison", len(events))
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
