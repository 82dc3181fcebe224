package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/test/assert"
)

func TestErrorsHaveAClass(t *testing.T) {
	throttled := &failure.Error{Class: failure.Throttled, RetryAfter: time.Minute, Err: errors.New("429")}
	for name, c := range map[string]struct {
		err    error
		class  failure.Class
		wait   time.Duration
		unsent bool
	}{
		"an error without a class is transient": {errors.New("connection refused"), failure.Transient, 0, false},
		"a class":                               {failure.Errorf(failure.Rejected, "400"), failure.Rejected, 0, false},
		"a wrapped class, with its wait":        {fmt.Errorf("send: %w", throttled), failure.Throttled, time.Minute, false},
		"an event that is not sent":             {failure.Unsendable("larger than %d bytes", 10), failure.Rejected, 0, true},
		"one that is wrapped":                   {fmt.Errorf("send: %w", failure.Unsendable("too large")), failure.Rejected, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			class, wait := failure.ClassOf(c.err)
			unsent := failure.IsUnsent(c.err)
			assert.True(t, class == c.class && wait == c.wait && unsent == c.unsent, "class", class, "wait", wait, "unsent", unsent)
		})
	}
}

func TestEventErrorsNameTheFirstFailure(t *testing.T) {
	err := failure.EventErrors{nil, errors.New("timeout"), nil, errors.New("reset")}
	assert.Equal(t, err.Error(), "2 of 4 events: timeout")
}

func TestErrorsHaveAScope(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want failure.Scope
	}{
		"an error without a class may be the event's":    {errors.New("500"), failure.ScopeEvent},
		"that of a context says nothing about the event": {fmt.Errorf("send: %w", context.DeadlineExceeded), failure.ScopeTarget},
		"a wrapped scope":            {fmt.Errorf("send: %w", failure.Unavailable(failure.ScopePart, "no leader")), failure.ScopePart},
		"a wait is the target's":     {failure.Errorf(failure.Throttled, "429"), failure.ScopeTarget},
		"or that of a part":          {&failure.Error{Class: failure.Throttled, Scope: failure.ScopePart, Err: errors.New("429")}, failure.ScopePart},
		"a halt is the target's":     {failure.Errorf(failure.Halted, "401"), failure.ScopeTarget},
		"a rejection is the event's": {&failure.Error{Class: failure.Rejected, Scope: failure.ScopeTarget, Err: errors.New("400")}, failure.ScopeEvent},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, failure.ScopeOf(c.err), c.want, "scope")
		})
	}
}
