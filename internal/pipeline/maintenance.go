package pipeline

import (
	"context"
	"fmt"
	"slices"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// Forget drops a sink from the state: its cursor, its queued redeliveries and its dead
// letters. It is an error if the configuration has the sink. It returns
// admin.ErrUnknown if the state does not have it.
func (p *operator) Forget(ctx context.Context, sink string) error {
	if configures(p.config, sink) {
		return fmt.Errorf("the configuration has the sink %s: remove it there first, and reload it if the bridge runs", sink)
	}
	store, err := p.cursorOf(ctx, sink)
	if err != nil {
		return err
	}
	if err := store.Forget(ctx, sink); err != nil {
		return err
	}
	p.log.Info("the state of a sink was deleted on request", "sink", sink)
	return nil
}

// ForgetAppliance drops an appliance from the state, except for events in the journal
// and dead letters, so that its streams begin at their configured start. It returns
// admin.ErrUnknown if the state holds nothing of it.
func (p *operator) ForgetAppliance(ctx context.Context, name string) error {
	store, err := p.writable()
	if err != nil {
		return err
	}
	found, err := store.ForgetAppliance(ctx, name)
	if err == nil && !found {
		err = fmt.Errorf("%w appliance %q: the state keeps nothing of it", admin.ErrUnknown, name)
	}
	if err == nil {
		p.log.Info("the state of an appliance was deleted on request", "appliance", name)
	}
	return err
}

// ForgetIdentity drops the stored identity of an appliance, and the finding that it was
// replaced. Its streams continue at their positions. It returns admin.ErrUnknown if the
// state holds neither.
func (p *operator) ForgetIdentity(ctx context.Context, name string) error {
	store, err := p.writable()
	if err != nil {
		return err
	}
	found, err := forgetIdentity(ctx, store, name)
	if err == nil && !found {
		err = fmt.Errorf("%w appliance %q: the state holds no identity of it", admin.ErrUnknown, name)
	}
	if err == nil {
		p.log.Info("the identity of an appliance was deleted on request", "appliance", name)
	}
	return err
}

// Rename moves everything that the state holds of a sink to another name, so that a
// sink that was renamed in the configuration continues at its cursor. It is an error if
// the configuration has the old name or the state has the new one. It returns
// admin.ErrUnknown if the state does not have the old one.
func (p *operator) Rename(ctx context.Context, old, name string) error {
	if old == name {
		return fmt.Errorf("%s is both the old and the new name: give two different names", old)
	}
	if configures(p.config, old) {
		return fmt.Errorf("the configuration has the sink %s: rename it there first; while the bridge runs, remove it there and reload, and add it with the new name once it is renamed here", old)
	}
	store, err := p.cursorOf(ctx, old)
	if err != nil {
		return err
	}
	if err := store.Rename(ctx, old, name); err != nil {
		return err
	}
	p.log.Info("the state of a sink was moved to another name on request", "sink", old, "to", name)
	return nil
}

// ForgetAppliance is operator.ForgetAppliance for an appliance that is not configured: the
// streams of any other keep their positions in memory.
func (c *Control) ForgetAppliance(ctx context.Context, name string) error {
	return c.pipeline.submit(ctx, "deleting the state of appliance "+name, func(lifetimes) error {
		polled := c.pipeline.current.Load().config.Appliances
		if slices.ContainsFunc(polled, func(a configs.Appliance) bool { return a.Name == name }) {
			return fmt.Errorf("the configuration has the appliance %s: remove it there and reload first", name)
		}
		return c.operator.ForgetAppliance(ctx, name)
	})
}
