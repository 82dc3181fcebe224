package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"ndrbridge/sinks"
)

func TestErrorsHaveAClass(t *testing.T) {
	throttled := &sinks.Error{Class: sinks.Throttled, RetryAfter: time.Minute, Err: errors.New("429")}
	for name, c := range map[string]struct {
		err    error
		class  sinks.Class
		wait   time.Duration
		unsent bool
	}{
		"an error without a class is transient": {errors.New("connection refused"), sinks.Transient, 0, false},
		"a class":                               {sinks.Errorf(sinks.Rejected, "400"), sinks.Rejected, 0, false},
		"a wrapped class, with its wait":        {fmt.Errorf("send: %w", throttled), sinks.Throttled, time.Minute, false},
		"an event that is not sent":             {sinks.Unsendable("larger than %d bytes", 10), sinks.Rejected, 0, true},
		"one that is wrapped":                   {fmt.Errorf("send: %w", sinks.Unsendable("too large")), sinks.Rejected, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			class, wait := sinks.ClassOf(c.err)
			if unsent := sinks.IsUnsent(c.err); class != c.class || wait != c.wait || unsent != c.unsent {
				t.Errorf("class %s, wait %s, unsent %t", class, wait, unsent)
			}
		})
	}
}

func TestEventErrorsNameTheFirstFailure(t *testing.T) {
	err := sinks.EventErrors{nil, errors.New("timeout"), nil, errors.New("reset")}
	if want := "2 of 4 events: timeout"; err.Error() != want {
		t.Errorf("%q, want %q", err.Error(), want)
	}
}

func TestErrorsHaveAScope(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want sinks.Scope
	}{
		"an error without a class may be the event's":    {errors.New("500"), sinks.ScopeEvent},
		"that of a context says nothing about the event": {fmt.Errorf("send: %w", context.DeadlineExceeded), sinks.ScopeTarget},
		"a wrapped scope":            {fmt.Errorf("send: %w", sinks.Unavailable(sinks.ScopePart, "no leader")), sinks.ScopePart},
		"a wait is the target's":     {sinks.Errorf(sinks.Throttled, "429"), sinks.ScopeTarget},
		"or that of a part":          {&sinks.Error{Class: sinks.Throttled, Scope: sinks.ScopePart, Err: errors.New("429")}, sinks.ScopePart},
		"a halt is the target's":     {sinks.Errorf(sinks.Halted, "401"), sinks.ScopeTarget},
		"a rejection is the event's": {&sinks.Error{Class: sinks.Rejected, Scope: sinks.ScopeTarget, Err: errors.New("400")}, sinks.ScopeEvent},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sinks.ScopeOf(c.err); got != c.want {
				t.Errorf("scope %q, want %q", got, c.want)
			}
		})
	}
}
