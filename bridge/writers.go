package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/tickets"
)

// buildWriter sets p's writer of ticket commands. It takes over the own writes of
// current, which may continue to write until p starts.
func (b *Bridge) buildWriter(ctx context.Context, p *appliancePart, config *configs.Config, current *appliancePart) (err error) {
	if current != nil && current.ownWrites != nil {
		p.ownWrites = current.ownWrites
	} else if p.ownWrites, err = tickets.LoadOwnWrites(ctx, b.store, p.config.Name); err != nil {
		return err
	}
	p.writer = tickets.NewWriter(p.client, b.store, p.ownWrites, tickets.WriterOptions{
		Appliance:    p.config.Name,
		TypePrefix:   config.Events.TypePrefix,
		RetryInitial: time.Duration(p.config.Retry.Initial),
		RetryMax:     time.Duration(p.config.Retry.Max),
		Probe:        time.Duration(p.config.AuthRetry),
		Log:          b.log.With("appliance", p.config.Name),
		Metrics:      b.metrics.writers,
	})
	return nil
}

// logWaiting logs the pending ticket commands that no appliance carries out, and what
// to do about them.
func (b *Bridge) logWaiting(ctx context.Context, config *configs.Config) error {
	waiting := make(map[string]int) // number of commands by appliance
	names := applianceNames(config)
	for after := uint64(0); ; {
		const page = 1000
		commands, err := b.store.Commands(ctx, checkpoint.CommandFilter{State: checkpoint.CommandPending}, after, page)
		if err != nil {
			return fmt.Errorf("read the pending ticket commands: %w", err)
		}
		for _, c := range commands {
			after = c.ID
			if !config.Tickets.Enabled || !slices.Contains(names, c.Appliance) {
				waiting[c.Appliance]++
			}
		}
		if len(commands) < page {
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		if !config.Tickets.Enabled {
			b.log.Warn("ticket commands are pending but tickets.enabled is false; they are kept until it is true or 'ndrbridge tickets drop' drops them",
				"appliance", name, "commands", waiting[name])
			continue
		}
		b.log.Warn("ticket commands are pending for an appliance that is not configured; they are kept until it is configured or 'ndrbridge tickets drop' drops them",
			"appliance", name, "commands", waiting[name])
	}
	return nil
}
