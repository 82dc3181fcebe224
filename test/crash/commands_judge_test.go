package crash

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"ndrbridge/checkpoint"
	standin "ndrbridge/test/appliance"
	"ndrbridge/tickets"
)

// commandBook holds the commands of each ticket that were acknowledged, in their
// order. The assignee of each tells it from all others of its ticket, and grows.
type commandBook struct {
	mu    sync.Mutex
	taken map[string][]tickets.Command // by ticket
}

func (b *commandBook) take(commands []tickets.Command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range commands {
		b.taken[c.TicketID] = append(b.taken[c.TicketID], c)
	}
}

// of returns the commands of a ticket.
func (b *commandBook) of(ticket string) []tickets.Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.taken[ticket])
}

// count is how many commands came by an intake.
func (b *commandBook) count(intake string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ticket, commands := range b.taken {
		if strings.HasPrefix(ticket, intake) {
			n += len(commands)
		}
	}
	return n
}

// writes are the assignees that each ticket got, in the order in which the
// appliance took them.
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

// faults are what the judge finds wrong with what the appliance was told.
func (s *commandScene) faults() (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	told, latest := writes(s.appliance.Patches()), make(map[int64]*standin.Version)
	for _, v := range s.appliance.Latest() {
		latest[v.ID] = v
	}
	for ticket, detection := range s.tickets {
		taken, got := s.book.of(ticket), told[ticket]
		for _, c := range taken {
			if !slices.Contains(got, *c.Assignee) {
				wrong("%s: the command %s was acknowledged and never written", ticket, *c.Assignee)
			}
		}
		// One that was interrupted is written again, before any that follows it.
		if !slices.IsSorted(got) {
			wrong("%s: written out of order: %v", ticket, got)
		}
		if len(taken) == 0 {
			continue
		}
		last, v := taken[len(taken)-1], latest[detection]
		if v.TicketID != ticket || v.Assignee != *last.Assignee || v.Status != last.Status || v.Resolution != last.Resolution {
			wrong("%s: the last command is %s %s %s, and the appliance shows %s %s %s",
				ticket, *last.Assignee, last.Status, last.Resolution, v.Assignee, v.Status, v.Resolution)
		}
	}
	return faults
}

// written counts the writes of the commands that came by each intake.
func (s *commandScene) written() map[string]int {
	n := make(map[string]int)
	for ticket, got := range writes(s.appliance.Patches()) {
		intake, _, _ := strings.Cut(ticket, "-")
		n[intake] += len(got)
	}
	return n
}

// nothingWaits fails where a bridge that has ended left a command that is not
// written, or gave one up.
func (s *commandScene) nothingWaits(t *testing.T) {
	t.Helper()
	store, err := checkpoint.Open(s.state, checkpoint.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, state := range []checkpoint.CommandState{checkpoint.CommandPending, checkpoint.CommandRejected} {
		commands, err := store.Commands(t.Context(), checkpoint.CommandFilter{State: state}, 0, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			t.Errorf("a command is %s: %s: %s", state, c.Body, c.Reason)
		}
	}
}
