package pipeline

import (
	"context"
	"fmt"
	"slices"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// forget drops a sink from the state: its cursor, its queued redeliveries and its dead
// letters. It is an error if the configuration has the sink. It returns
// admin.ErrUnknown if the state does not have it.
func (p *operator) forget(ctx context.Context, r admin.OfSink) error {
	if configures(p.config, r.Sink) {
		return fmt.Errorf("the configuration has the sink %s: remove it there first, and reload it if the bridge runs", r.Sink)
	}
	store, err := p.cursorOf(ctx, r.Sink)
	if err != nil {
		return err
	}
	if err := store.Forget(ctx, r.Sink); err != nil {
		return err
	}
	p.log.Info("the state of a sink was deleted on request", "sink", r.Sink)
	return nil
}

// forgetAppliance drops an appliance from the state, except for events in the journal
// and dead letters, so that its streams begin at their configured start; or only its stored
// identity, and the finding that it was replaced, so that its streams continue at their
// positions. It returns admin.ErrUnknown if the state holds nothing of the appliance.
func (p *operator) forgetAppliance(ctx context.Context, r admin.ForgetRequest) error {
	store, err := p.writable()
	if err != nil {
		return err
	}
	what, absent := "state", "keeps nothing"
	var found bool
	if r.Identity {
		what, absent = "identity", "holds no identity"
		found, err = forgetIdentity(ctx, store, r.Appliance)
	} else {
		found, err = store.ForgetAppliance(ctx, r.Appliance)
	}
	if err == nil && !found {
		err = fmt.Errorf("%w appliance %q: the state %s of it", admin.ErrUnknown, r.Appliance, absent)
	}
	if err == nil {
		p.log.Info("the "+what+" of an appliance was deleted on request", "appliance", r.Appliance)
	}
	return err
}

// rename moves everything that the state holds of a sink to another name, so that a
// sink that was renamed in the configuration continues at its cursor. It is an error if
// the configuration has the old name or the state has the new one. It returns
// admin.ErrUnknown if the state does not have the old one.
func (p *operator) rename(ctx context.Context, r admin.RenameRequest) error {
	old, name := r.Sink, r.To
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

// forgetAppliance is operator.forgetAppliance for an appliance that is not configured: the
// streams of any other keep their positions in memory.
func (c *control) forgetAppliance(ctx context.Context, r admin.ForgetRequest) error {
	if r.Identity {
		return c.operator.forgetAppliance(ctx, r)
	}
	return c.pipeline.change(ctx, func(context.Context) error {
		polled := c.pipeline.current.Load().config.Appliances
		if slices.ContainsFunc(polled, func(a configs.Appliance) bool { return a.Name == r.Appliance }) {
			return fmt.Errorf("the configuration has the appliance %s: remove it there and reload first", r.Appliance)
		}
		return c.operator.forgetAppliance(ctx, r)
	})
}
