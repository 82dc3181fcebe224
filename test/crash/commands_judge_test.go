package crash

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

// commandBook records the acknowledged commands of each ticket in order. The assignee
// identifies a command within its ticket and increases.
type commandBook struct {
	mu       sync.Mutex
	accepted map[string][]commands.Command // by ticket
}

func (b *commandBook) accept(commands []commands.Command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range commands {
		b.accepted[c.TicketID] = append(b.accepted[c.TicketID], c)
	}
}

// of returns the commands of a ticket.
func (b *commandBook) of(ticket string) []commands.Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.accepted[ticket])
}

// count returns the number of commands from an intake.
func (b *commandBook) count(intake string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ticket, commands := range b.accepted {
		if strings.HasPrefix(ticket, intake) {
			n += len(commands)
		}
	}
	return n
}

// writes returns the assignees written to each ticket, in order.
func writes(patches []standin.Patch) map[string][]string {
	all := make(map[string][]string)
	for _, p := range patches {
		var body struct {
			TicketID string  `json:"ticket_id"`
			Assignee *string `json:"assignee"`
		}
		if err := json.Unmarshal(p.Body, &body); err == nil && body.Assignee != nil && len(p.Made) > 0 {
			all[body.TicketID] = append(all[body.TicketID], *body.Assignee)
		}
	}
	return all
}

// faults returns the differences between the acknowledged commands and what was written to
// the appliance.
func (s *commandScene) faults() []string { return s.book.faults(s.appliance, s.tickets) }

// faults returns the differences between the acknowledged commands for an appliance's tickets,
// whose detections it receives, and what was written to the appliance.
func (b *commandBook) faults(appliance *standin.Appliance, tickets map[string]int64) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	written, latest := writes(appliance.Patches()), make(map[int64]*standin.Version)
	for _, v := range appliance.Latest() {
		latest[v.ID] = v
	}
	for ticket, detection := range tickets {
		accepted, got := b.of(ticket), written[ticket]
		for _, c := range accepted {
			if !slices.Contains(got, *c.Assignee) {
				wrong("%s: the command %s was acknowledged and never written", ticket, *c.Assignee)
			}
		}
		// An interrupted one is written again, before those that follow it.
		if !slices.IsSorted(got) {
			wrong("%s: written out of order: %v", ticket, got)
		}
		if len(accepted) == 0 {
			continue
		}
		last, v := accepted[len(accepted)-1], latest[detection]
		if v.TicketID != ticket || v.Assignee != *last.Assignee || v.Status != last.Status || v.Resolution != last.Resolution {
			wrong("%s: the last command is %s %s %s, and the appliance shows %s %s %s",
				ticket, *last.Assignee, last.Status, last.Resolution, v.Assignee, v.Status, v.Resolution)
		}
	}
	return faults
}

// written counts the writes of commands by intake.
func (s *commandScene) written() map[string]int {
	n := make(map[string]int)
	for ticket, got := range writes(s.appliance.Patches()) {
		intake, _, _ := strings.Cut(ticket, "-")
		n[intake] += len(got)
	}
	return n
}

// nothingWaits fails if the ended bridge left pending or rejected commands.
func (s *commandScene) nothingWaits(t *testing.T) {
	t.Helper()
	store, err := checkpoint.Open(s.state, checkpoint.Options{ReadOnly: true})
	require.NoError(t, err)
	defer store.Close()
	for _, state := range []checkpoint.CommandState{checkpoint.CommandPending, checkpoint.CommandRejected} {
		commands, err := store.Commands(t.Context(), checkpoint.CommandFilter{State: state}, 0, 3)
		require.NoError(t, err)
		for _, c := range commands {
			t.Errorf("a command is %s: %s: %s", state, c.Body, c.Reason)
		}
	}
}
