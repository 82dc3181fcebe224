package sinks

import (
	"fmt"
	"time"
)

// stuckAfter exceeds the duration of any Send that goes on: a service that accepts one request a
// second gets a batch of 500 events in less.
const stuckAfter = 15 * time.Minute

// watchSend notes that a Send begins, so that Status can report one that does not return. The
// caller calls ended when it has returned.
func (r *Runner) watchSend() (ended func()) {
	set := func(begun time.Time) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sending = begun
	}
	set(time.Now())
	timer := time.AfterFunc(stuckAfter, func() {
		r.o.Log.Error("a delivery does not end; its events are kept", "since", time.Now().Add(-stuckAfter))
		r.updateStateMetric()
	})
	return func() {
		set(time.Time{})
		if !timer.Stop() {
			r.o.Log.Info("the delivery ended")
			r.updateStateMetric()
		}
	}
}

// orStuck returns s, or that the sink is stuck if a Send that began at a time should have
// returned and s does not explain that.
func (s Status) orStuck(sending time.Time) Status {
	if sending.IsZero() || time.Since(sending) < stuckAfter || s.State != StateRunning && s.State != StateRetrying {
		return s
	}
	s.State, s.Since, s.NextAttempt = StateStuck, sending.Add(stuckAfter), time.Time{}
	s.Cause = "delivery does not end"
	s.Error = fmt.Sprintf("a delivery that began at %s does not end; if its target answers others, restart the bridge", sending.UTC().Format(time.RFC3339))
	return s
}
