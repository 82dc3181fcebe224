package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// command makes the state of an installation whose bridge has not run, with ticket
// commands, of which the second was rejected.
func (i *installation) command(n int) {
	i.t.Helper()
	store, err := checkpoint.Open(filepath.Join(filepath.Dir(i.config), "state.db"), checkpoint.Options{})
	require.NoError(i.t, err)
	var commands []checkpoint.Command
	for k := range n {
		commands = append(commands, checkpoint.Command{
			Appliance: "hq", Subject: fmt.Sprintf("SEC-%d", k+1), Accepted: time.Now().Truncate(time.Millisecond),
			Body: fmt.Appendf(nil, `{"ticket_id":"SEC-%d","appliance":"hq","status":"closed","resolution":"action_taken","assignee":"a\\u001b"}`, k+1),
		})
	}
	taken, err := store.Accept(i.t.Context(), commands)
	if err == nil {
		err = store.Finish(i.t.Context(), checkpoint.Outcome{
			ID: taken[1].ID, State: checkpoint.CommandRejected, Reason: "404: no \x1b such ticket", Done: time.Now().Truncate(time.Millisecond),
		})
	}
	if err == nil {
		err = store.Close()
	}
	require.NoError(i.t, err)
}

func TestTicketCommandsAreListedRetriedAndDropped(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		t.Run(map[bool]string{false: "of a bridge that does not run", true: "of a bridge that runs"}[running], func(t *testing.T) {
			i := install(t)
			i.command(3)
			flags := []string{"--config", i.config}
			if running {
				stop := i.start()
				defer stop()
				flags = i.byAddress()
			}
			i.expect(flags, []expected{
				{[]string{"tickets", "list"}, 0, []string{"SEC-1", "SEC-2", "SEC-3", "status=closed resolution=action_taken assignee=", "no   such ticket"}},
				{[]string{"tickets", "list", "--limit", "2"}, 0, []string{"there are more: add --after 2"}},
				{[]string{"tickets", "list", "--ticket", "SEC-9"}, 0, []string{"there are no matching ticket commands"}},
				{[]string{"tickets", "show", "2"}, 0, []string{"status     rejected", "ticket     SEC-2", `"status": "closed"`}},
				{[]string{"tickets", "show", "9"}, 1, []string{"unknown ticket command 9"}},
				{[]string{"tickets", "retry", "1"}, 1, []string{"ticket command 1 is pending: only a rejected command"}},
				{[]string{"tickets", "retry", "2"}, 0, []string{"1 ticket command retried"}},
				{[]string{"tickets", "drop", "2"}, 2, []string{"Drop the pending ticket command 2 of SEC-2?", "--yes"}},
				{[]string{"tickets", "drop", "2", "9", "--yes"}, 1, []string{"1 ticket command dropped", "unknown ticket command 9"}},
			})
			out, _ := i.run(0, append([]string{"tickets", "list", "--json", "--status", "pending"}, flags...)...)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if len(lines) != 2 || !strings.Contains(lines[1], `"ticket_id":"SEC-3","command":{"ticket_id":"SEC-3"`) {
				t.Errorf("%s", out)
			}
		})
	}
}

func TestALongNoteIsListedByItsBeginning(t *testing.T) {
	t.Parallel()
	text := changesText([]byte(`{"appliance":"hq","detection_id":7,"by":"ana","note":"` + strings.Repeat("é", 5000) + `"}`))
	assert.Equal(t, text, `detection=7 note="`+strings.Repeat("é", 48)+`…" by="ana"`)
}
