package bridge

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/tickets"
)

// buildTickets returns the acceptor and the webhook receivers of ticket commands. The
// result is empty if tickets.enabled is false.
func (b *Bridge) buildTickets(config *configs.Config) (admin.Tickets, error) {
	if !config.Tickets.Enabled {
		return admin.Tickets{}, nil
	}
	receivers, err := config.Tickets.Webhooks.Receivers()
	if err != nil {
		return admin.Tickets{}, fmt.Errorf("webhooks.%w", err)
	}
	return admin.Tickets{
		Acceptor: tickets.NewAcceptor(b.store, tickets.AcceptorOptions{
			Appliances: applianceNames(config), Locate: b.locate, Now: time.Now, Metrics: b.metrics.acceptor,
		}),
		Webhooks: receivers,
	}, nil
}

// tickets returns the current acceptor and receivers. The state must be open.
func (b *Bridge) tickets() admin.Tickets { return b.current.Load().tickets }

func applianceNames(config *configs.Config) []string {
	var names []string
	for _, a := range config.Appliances {
		names = append(names, a.Name)
	}
	return names
}

// Commands implements admin.Control.
func (p *operator) Commands(ctx context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error) {
	store, err := p.state(reading)
	if err != nil {
		return nil, err
	}
	return store.Commands(ctx, f, after, limit)
}

// Command implements admin.Control.
func (p *operator) Command(ctx context.Context, id uint64) (checkpoint.Command, error) {
	store, err := p.state(reading)
	if err != nil {
		return checkpoint.Command{}, err
	}
	c, found, err := store.Command(ctx, id)
	if err == nil && !found {
		err = fmt.Errorf("%w ticket command %d: it may have been dropped, or completed so long ago that it was removed", admin.ErrUnknown, id)
	}
	return c, err
}

// RetryCommand implements admin.Control.
func (p *operator) RetryCommand(ctx context.Context, id uint64) error {
	c, err := p.Command(ctx, id)
	if err != nil {
		return err
	}
	if c.State != checkpoint.CommandRejected {
		return fmt.Errorf("ticket command %d is %s: %w", id, c.State, admin.ErrNotRejected)
	}
	store, err := p.state(writing)
	if err != nil {
		return err
	}
	p.log.Info("a ticket command is retried on request", "command", id)
	return store.RetryCommand(ctx, id)
}

// DropCommand implements admin.Control.
func (p *operator) DropCommand(ctx context.Context, id uint64) error {
	if _, err := p.Command(ctx, id); err != nil {
		return err
	}
	store, err := p.state(writing)
	if err != nil {
		return err
	}
	n, err := store.DropCommands(ctx, []uint64{id})
	if n > 0 {
		p.log.Info("a ticket command was dropped on request", "command", id)
	}
	return err
}
