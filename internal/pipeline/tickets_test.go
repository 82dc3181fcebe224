package pipeline

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/commands"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
)

func TestEachLinkIsOneCommand(t *testing.T) {
	p, store := withState(t, checkpoint.Limits{})
	defer store.Close()
	p.current.Store(&runtime{tickets: admin.Tickets{Acceptor: commands.NewAcceptor(store, commands.AcceptorOptions{
		Appliances: []string{"hq"}, Now: time.Now, Metrics: commands.NewAcceptorMetrics(prometheus.NewRegistry()),
	})}})
	link, event := p.linkFor("tickets"), presettest.Version(t, 7, 0, "new")
	for _, c := range []struct {
		name   string
		ticket ticketopener.Ticket
	}{
		{"a ticket that is opened", ticketopener.Ticket{ID: "SEC-1"}},
		{"one that is moved to another project", ticketopener.Ticket{ID: "OPS-1", Moves: 1}},
		{"one that is moved back", ticketopener.Ticket{ID: "SEC-1", Moves: 2}},
		{"one that is moved once more", ticketopener.Ticket{ID: "OPS-1", Moves: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := require.Value(store.Commands(t.Context(), checkpoint.CommandFilter{}, 0, 100))(t)
			for range 2 {
				require.NoError(t, link(t.Context(), event, c.ticket))
			}
			all := require.Value(store.Commands(t.Context(), checkpoint.CommandFilter{}, 0, 100))(t)
			require.Equal(t, len(all), len(before)+1, "commands")
			assert.Equal(t, all[len(all)-1].Subject, c.ticket.ID)
		})
	}
}
