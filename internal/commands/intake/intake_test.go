package intake_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/commands/intake"
	"ndrbridge/test/require"
)

// counter is an acceptor that records its commands and fails as configured.
type counter struct {
	mu       sync.Mutex
	failures int      // that are left
	keys     []string // of calls that were accepted
	tickets  []string // of accepted commands
	refused  []intake.Refusal
}

func (c *counter) Accept(_ context.Context, key string, commands []commands.Command) ([]checkpoint.Acceptance, error) {
	for _, command := range commands {
		if err := command.Check(); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures > 0 {
		c.failures--
		return nil, errors.New("the disk is full")
	}
	c.keys = append(c.keys, key)
	for _, command := range commands {
		name := command.TicketID
		if id := command.Detection(); id != 0 {
			name = fmt.Sprintf("SEC-%d", id)
		}
		c.tickets = append(c.tickets, name)
	}
	return make([]checkpoint.Acceptance, len(commands)), nil
}

func (c *counter) refuse(_ context.Context, r intake.Refusal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, r)
	return nil
}

func (c *counter) options() intake.Options {
	return intake.Options{
		Acceptor: c, Refuse: c.refuse, RetryInitial: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	}
}

// accepted waits until n commands were accepted and returns their tickets.
func (c *counter) accepted(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	eventually(t, fmt.Sprintf("%d commands are accepted", n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		all = slices.Clone(c.tickets)
		return len(all) >= n
	})
	return all
}

func (c *counter) refusals(t *testing.T, n int) []intake.Refusal {
	t.Helper()
	var all []intake.Refusal
	eventually(t, fmt.Sprintf("%d messages are refused", n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		all = slices.Clone(c.refused)
		return len(all) >= n
	})
	return all
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "gave up waiting until", what)
	}
}

// running runs an intake until the test ends, or until it is stopped.
func running(t *testing.T, run func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	stop = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Error("it does not end")
		}
	}
	t.Cleanup(stop)
	return stop
}

func command(ticket string) []byte {
	return fmt.Appendf(nil, `{"ticket_id": %q, "status": "closed"}`, ticket)
}

// numbered returns commands for n tickets, and the tickets.
func numbered(n int) (bodies [][]byte, names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("SEC-%d", i))
		body := command(names[i])
		switch { // the intakes take every kind
		case i%2 == 1:
			body = fmt.Appendf(nil, `{"hide": {"detection_id": %d, "expiration": "24h"}, "by": "ana"}`, i)
		case i > 0:
			body = fmt.Appendf(nil, `{"detection_id": %d, "note": "seen", "by": "ana"}`, i)
		}
		bodies = append(bodies, body)
	}
	return bodies, names
}

// wrong are messages without a command, and the reasons of their refusals.
var wrong = []struct{ body, says string }{
	{"close it", "it is not valid JSON"},
	{`{"ticket_id": "SEC-1", "state": "closed"}`, "is an unknown field"},
	{`{"ticket_id": "SEC-1", "status": "done"}`, "new, in_progress, closed, acknowledged"},
	{`[{"ticket_id": "SEC-1", "status": "closed"}, {"status": "closed"}]`, "ticket_id is missing"},
	{`{"hide": {"detection_id": 12}, "by": "ana"}`, "every rule must end"},
	{"", "it is not valid JSON"},
}
