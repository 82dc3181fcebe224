package commands_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// acceptor is an Acceptor on a real state, with the appliances hq and dc.
type acceptor struct {
	*commands.Acceptor
	store    *checkpoint.Store
	registry *prometheus.Registry
}

var noon = time.UnixMilli(1750935535971)

func newAcceptor(t *testing.T, locate func(context.Context, commands.Command) ([]string, error), appliances ...string) *acceptor {
	t.Helper()
	d := &acceptor{store: newStore(t), registry: prometheus.NewRegistry()}
	d.Acceptor = commands.NewAcceptor(d.store, commands.AcceptorOptions{
		Appliances: appliances, Locate: locate, Now: func() time.Time { return noon }, Metrics: commands.NewAcceptorMetrics(d.registry),
	})
	return d
}

// stored returns the commands of the state.
func (d *acceptor) stored(t *testing.T) []checkpoint.Command {
	t.Helper()
	commands := require.Value(d.store.Commands(t.Context(), checkpoint.CommandFilter{}, 0, 100))(t)
	return commands
}

func closed(ticket string) commands.Command {
	return commands.Command{TicketID: ticket, Status: "closed"}
}

func TestACommandIsStoredWithItsAppliance(t *testing.T) {
	d := newAcceptor(t, nil, "hq")
	accepted := require.Value(d.Accept(t.Context(), "", []commands.Command{closed("SEC-1"), {TicketID: "SEC-2", Assignee: pointer("")}}))(t)
	require.Equal(t, len(accepted), 2)
	for i, want := range []struct{ ticket, body string }{
		{"SEC-1", `{"ticket_id":"SEC-1","appliance":"hq","status":"closed"}`},
		{"SEC-2", `{"ticket_id":"SEC-2","appliance":"hq","assignee":""}`},
	} {
		c, found, err := d.store.Command(t.Context(), accepted[i].ID)
		require.True(t, err == nil && found && !accepted[i].Duplicate, accepted, found, err)
		if c.Appliance != "hq" || c.Subject != want.ticket || string(c.Body) != want.body || !c.Accepted.Equal(noon) || c.State != checkpoint.CommandPending {
			t.Errorf("%+v with %s, want %s", c, c.Body, want.body)
		}
	}
}

func TestRulesOfCommandsEnd(t *testing.T) {
	d := newAcceptor(t, nil, "hq", "dc")
	d.MaxExpiration = map[string]time.Duration{"hq": 48 * time.Hour}
	extend := func(until string) commands.Command {
		return commands.Command{RuleID: 1<<53 + 1, Extend: until, By: "ana", Appliance: "hq"}
	}
	at := func(until, appliance string) commands.Command {
		return with(hide(func(h *commands.Hide) { h.Expiration = until }), func(c *commands.Command) { c.Appliance = appliance })
	}
	for _, c := range []struct {
		name    string
		command commands.Command
		body    string // that is stored
		wrong   string // of a FieldError
	}{
		{name: "after a duration from acceptance", command: at("48h", "hq"), body: `{"appliance":"hq","hide":{"detection_id":12,"expiration":"2025-06-28T10:58:55.971Z"},"by":"ana"}`},
		{name: "at a time", command: at("2025-06-27T12:00:00.0009+02:00", "hq"), body: `{"appliance":"hq","hide":{"detection_id":12,"expiration":"2025-06-27T10:00:00Z"},"by":"ana"}`},
		{name: "later, if they are extended", command: extend("1h"), body: `{"appliance":"hq","rule_id":9007199254740993,"extend":"2025-06-26T11:58:55.971Z","by":"ana"}`},
		{name: "not later than allowed", command: at("48h1ms", "hq"), wrong: "hide.expiration is more than 48h0m0s from now, which rules.max_expiration does not allow"},
		{name: "not at a later time than allowed", command: extend("2035-06-27T12:00:00Z"), wrong: "extend is more than 48h0m0s from now, which rules.max_expiration does not allow"},
		{name: "not in the past", command: at("2025-06-26T10:58:55.971Z", "hq"), wrong: "hide.expiration is not in the future"},
		{name: "not before they begin", command: at("-1h", "hq"), wrong: "hide.expiration is not in the future"},
		{name: "not at all if they may not be written", command: at("1h", "dc"), wrong: "rules.write is false for the appliance dc: set it, and the bridge writes rules there"},
		{name: "not at an appliance that is not named", command: commands.Command{RuleID: 7, End: true, By: "ana"}, wrong: "appliance is missing: several appliances may have a rule with this id; it may be hq, dc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(d.stored(t))
			_, err := d.Accept(t.Context(), c.name, []commands.Command{c.command})
			stored := d.stored(t)[before:]
			var wrong *commands.FieldError
			if c.wrong != "" {
				assert.True(t, errors.As(err, &wrong) && wrong.Error() == c.wrong && len(stored) == 0, err, stored)
				return
			}
			require.True(t, err == nil && len(stored) == 1 && stored[0].Subject == "", err, stored)
			assert.Equal(t, string(stored[0].Body), c.body)
			again := require.Value(d.Accept(t.Context(), c.name, []commands.Command{c.command}))(t)
			assert.True(t, again[0].Duplicate && again[0].ID == stored[0].ID, again)
		})
	}
}

func TestNotesAreOnlyAddedWhereTheyMayBe(t *testing.T) {
	d := newAcceptor(t, nil, "hq", "dc")
	d.Notes = []string{"hq"}
	for appliance, wrong := range map[string]string{"hq": "", "dc": "notes.out is false for the appliance dc: set it, and the bridge writes notes there"} {
		t.Run(appliance, func(t *testing.T) {
			before := len(d.stored(t))
			_, err := d.Accept(t.Context(), "", []commands.Command{note(func(c *commands.Command) { c.Appliance = appliance })})
			stored := d.stored(t)[before:]
			if wrong != "" {
				_, ok := errors.AsType[*commands.FieldError](err)
				assert.True(t, ok && err.Error() == wrong && len(stored) == 0, err, stored)
				return
			}
			require.True(t, err == nil && len(stored) == 1, err, stored)
			assert.Equal(t, string(stored[0].Body), `{"appliance":"hq","detection_id":12,"note":"seen","by":"ana"}`)
		})
	}
}

func TestTheApplianceOfACommandIsFound(t *testing.T) {
	locate := func(_ context.Context, c commands.Command) ([]string, error) {
		switch {
		case c.DetectionID == 7, c.TicketID == "SEC-7":
			return []string{"dc"}, nil
		case c.TicketID == "SEC-8":
			return []string{"dc", "hq"}, nil
		case c.TicketID == "SEC-9":
			return nil, errors.New("dc answered 503")
		}
		return nil, nil
	}
	for _, c := range []struct {
		name      string
		command   commands.Command
		locate    bool
		want      string
		allowed   []string // by a FieldError
		temporary bool     // not a FieldError
	}{
		{name: "by its name", command: commands.Command{TicketID: "SEC-1", Status: "new", Appliance: "hq"}, want: "hq"},
		{name: "by its ticket", command: closed("SEC-7"), locate: true, want: "dc"},
		{name: "by its detection", command: commands.Command{TicketID: "SEC-1", DetectionID: 7}, locate: true, want: "dc"},
		{name: "a name takes precedence", command: commands.Command{TicketID: "SEC-7", Status: "new", Appliance: "hq"}, locate: true, want: "hq"},
		{name: "a name that no appliance has is refused", command: commands.Command{TicketID: "SEC-1", Status: "new", Appliance: "lab"}, allowed: []string{"hq", "dc"}},
		{name: "a ticket that no appliance has requires a name", command: closed("SEC-1"), locate: true, allowed: []string{"hq", "dc"}},
		{name: "a ticket that two appliances have requires a name", command: closed("SEC-8"), locate: true, allowed: []string{"dc", "hq"}},
		{name: "without Locate a name is required", command: closed("SEC-7"), allowed: []string{"hq", "dc"}},
		{name: "an appliance that cannot be asked now is a temporary error", command: closed("SEC-9"), locate: true, temporary: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newAcceptor(t, nil, "hq", "dc")
			if c.locate {
				d = newAcceptor(t, locate, "hq", "dc")
			}
			_, err := d.Accept(t.Context(), "k", []commands.Command{c.command})
			stored := d.stored(t)
			var wrong *commands.FieldError
			switch {
			case c.want != "":
				assert.True(t, err == nil && len(stored) == 1 && stored[0].Appliance == c.want, stored, err, "want it at", c.want)
			case len(stored) > 0 || err == nil:
				t.Errorf("%+v was stored (%v)", stored, err)
			case errors.As(err, &wrong) == c.temporary:
				t.Errorf("%v: is it a FieldError? want %t", err, !c.temporary)
			case !c.temporary && (wrong.Field != "appliance" || !slices.Equal(wrong.Allowed, c.allowed)):
				t.Errorf("%+v, want %q", wrong, c.allowed)
			}
		})
	}
}

func TestACallIsAcceptedWholeAndOnce(t *testing.T) {
	d := newAcceptor(t, nil, "hq")
	accept := func(key string, commands ...commands.Command) ([]checkpoint.Acceptance, error) {
		return d.Accept(t.Context(), key, commands)
	}
	first, err := accept("http/k", closed("SEC-1"), closed("SEC-1"))
	require.True(t, err == nil && len(first) == 2 && first[0].ID != first[1].ID, first, err, "want two commands: they are one only where a client sends them again")
	again, err := accept("http/k", closed("SEC-1"), closed("SEC-1"))
	assert.True(t, err == nil && again[0].Duplicate && again[1].Duplicate && again[0].ID == first[0].ID && again[1].ID == first[1].ID, again, err, first, "again")
	other, err := accept("http/k", closed("SEC-2"))
	assert.True(t, err == nil && !other[0].Duplicate, other, err, "a key that was used before must not lose another command")
	assert.False(t, require.Value(accept("nats/k", closed("SEC-2")))(t)[0].Duplicate, "the key of another intake is another")
	for range 2 {
		assert.False(t, require.Value(accept("", closed("SEC-3")))(t)[0].Duplicate, "without a key nothing comes again")
	}
	before := len(d.stored(t))
	_, err = accept("http/l", closed("SEC-4"), commands.Command{TicketID: "SEC-5", Status: "done"})
	var wrong *commands.FieldError
	assert.True(t, errors.As(err, &wrong) && wrong.Index == 1 && wrong.Field == "status", err, "want the status of the second")
	n := len(d.stored(t))
	assert.Equal(t, n, before, n-before, "commands were stored of a call with a wrong one")
	for result, want := range map[string]float64{"accepted": 6, "duplicate": 2, "refused": 1} {
		assert.Equal(t, d.received(t, result), want, result)
	}
}

func (d *acceptor) received(t *testing.T, result string) float64 {
	t.Helper()
	families := require.Value(d.registry.Gather())(t)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
