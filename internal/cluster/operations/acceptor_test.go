package operations_test

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster/operations"
	"ndrbridge/internal/tickets"
	"ndrbridge/test/require"
)

func (c *cluster) acceptor() *tickets.Acceptor {
	return operations.NewAcceptor(c, tickets.AcceptorOptions{
		Appliances: c.appliances(), Now: time.Now, Metrics: tickets.NewAcceptorMetrics(prometheus.NewRegistry()),
	})
}

func TestTheApplianceOfATicketIsFound(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(c *cluster)
		want    int    // the shard that gets the command
		err     string // "": none
		asked   bool   // the appliances were asked
	}{
		{"by the state of one shard", func(c *cluster) { c.shards[2].remembers = []string{c.applianceIn(2)} }, 2, "", false},
		{"by a state before any appliance", func(c *cluster) {
			c.shards[2].remembers = []string{c.applianceIn(2)}
			c.shards[1].has = []string{c.applianceIn(1)}
		}, 2, "", false},
		{"by asking the appliances", func(c *cluster) { c.shards[1].has = []string{c.applianceIn(1)} }, 1, "", true},
		{"although another shard cannot be asked", func(c *cluster) {
			c.shards[2].remembers = []string{c.applianceIn(2)}
			c.shards[0].fail(errDown)
		}, 2, "", false},
		{"not if the shard that may know it cannot be asked", func(c *cluster) { c.shards[0].fail(errDown) }, 0, "find the appliance of a ticket: shard 00: no member owns it", false},
		{"not if nobody knows it", func(*cluster) {}, 0, "no appliance is known to have", true},
		{"not if two shards know it", func(c *cluster) {
			c.shards[1].remembers = []string{c.applianceIn(1)}
			c.shards[2].remembers = []string{c.applianceIn(2)}
		}, 0, "several appliances have", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(3)
			test.prepare(c)
			accepted, err := c.acceptor().Accept(t.Context(), "http/k", []tickets.Command{{TicketID: "T-1", Status: "closed"}})
			check(t, err, test.err)
			if asked := c.shards[1].asked > 0; asked != test.asked {
				t.Errorf("appliances asked: %t, want %t", asked, test.asked)
			}
			if test.err != "" {
				if _, refused := errors.AsType[*tickets.FieldError](err); refused == errors.Is(err, admin.ErrUnavailable) {
					t.Errorf("%v must be either a refusal or temporary", err)
				}
				return
			}
			if len(accepted) != 1 || int(accepted[0].ID)%3 != test.want || len(c.shards[test.want].commands) != 1 {
				t.Errorf("%+v, want it in shard %d", accepted, test.want)
			}
		})
	}
}

func TestCommandsForSeveralShards(t *testing.T) {
	list := func(c *cluster) (all []tickets.Command) {
		for _, name := range append(c.appliances(), c.appliances()...) {
			all = append(all, tickets.Command{TicketID: "T-" + name, Appliance: name, Status: "closed"})
		}
		return all
	}
	t.Run("are refused without a key", func(t *testing.T) {
		c := newCluster(3)
		_, err := c.acceptor().Accept(t.Context(), "", list(c))
		refused, ok := errors.AsType[*tickets.FieldError](err)
		if !ok || refused.Index != 1 {
			t.Errorf("%v, want a refusal of the second", err)
		}
		check(t, err, "send the list with an Idempotency-Key")
		for n, s := range c.shards {
			if len(s.commands) > 0 {
				t.Errorf("shard %d stored %v", n, s.commands)
			}
		}
	})
	t.Run("but not if all are for one shard", func(t *testing.T) {
		c := newCluster(3)
		commands := []tickets.Command{
			{TicketID: "A", Appliance: c.applianceIn(1), Status: "closed"}, {TicketID: "B", Appliance: c.applianceIn(1), Status: "closed"},
		}
		accepted, err := c.acceptor().Accept(t.Context(), "", commands)
		if err != nil || len(accepted) != 2 || c.shards[1].commands[0].Subject != "A" || c.shards[1].commands[1].Subject != "B" {
			t.Errorf("%+v (%v): %+v", accepted, err, c.shards[1].commands)
		}
	})
	t.Run("are completed by a repetition", func(t *testing.T) {
		c := newCluster(3)
		acceptor, all := c.acceptor(), list(c)
		c.shards[1].fail(errDown)
		_, err := acceptor.Accept(t.Context(), "http/k", all)
		if !errors.Is(err, admin.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		check(t, err, "shard 01: no member owns it")
		c.shards[1].fail(nil)
		for range 2 {
			accepted, err := acceptor.Accept(t.Context(), "http/k", all)
			require.NoError(t, err)
			for i, a := range accepted {
				if int(a.ID)%3 != i%3 {
					t.Errorf("command %d has id %d", i, a.ID)
				}
			}
		}
		for n, s := range c.shards {
			if len(s.commands) != 2 || s.commands[0].Appliance != c.applianceIn(n) {
				t.Errorf("shard %d stored %+v, want its two commands once", n, s.commands)
			}
		}
		all[5].Status = "new"
		if accepted, err := acceptor.Accept(t.Context(), "http/k", all); err != nil || accepted[0].Duplicate {
			t.Errorf("%+v (%v): the same key with other commands is another call", accepted, err)
		}
	})
	t.Run("are refused for now by a shard that is full", func(t *testing.T) {
		c := newCluster(3)
		c.shards[2].fail(checkpoint.ErrCommandsFull)
		if _, err := c.acceptor().Accept(t.Context(), "http/k", list(c)); !errors.Is(err, checkpoint.ErrCommandsFull) {
			t.Errorf("%v, want ErrCommandsFull", err)
		}
	})
}
