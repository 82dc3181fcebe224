package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"ndrbridge/admin"
	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/transform"
)

// Offline is the state of a bridge that does not run, for an operator. Until
// something is to be changed, the file is only read. Its methods must not be called
// concurrently; what only a running bridge can do fails with admin.ErrNotRunning.
type Offline struct {
	operator
	store    *checkpoint.Store
	writable bool
	clients  []*appliance.Client
}

var _ admin.Control = (*Offline)(nil)

// OpenOffline opens the state of a configuration, which must be there. The error
// wraps checkpoint.ErrLocked while a bridge runs on it.
func OpenOffline(config *configs.Config, o Options) (*Offline, error) {
	if _, err := os.Stat(config.State); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no state at %s: the bridge has not run with this configuration yet", config.State)
	}
	store, err := checkpoint.Open(config.State, checkpoint.Options{ReadOnly: true, LockWait: -1})
	if err != nil {
		return nil, err
	}
	f := &Offline{store: store, operator: operator{config: config, version: o.Version, log: o.Log}}
	f.state = f.open
	f.client = func(a configs.Appliance) (*appliance.Client, error) {
		client, err := newClient(a, o.Version, nil, nil, nil)
		if err == nil {
			f.clients = append(f.clients, client)
		}
		return client, err
	}
	return f, nil
}

// open returns the state, which is opened again for the first time that something is
// to be changed.
func (f *Offline) open(a access) (*checkpoint.Store, error) {
	if a == reading || f.writable {
		return f.store, nil
	}
	if err := f.store.Close(); err != nil {
		return nil, err
	}
	store, err := checkpoint.Open(f.config.State, checkpoint.Options{Limits: limits(f.config)})
	if err != nil {
		return nil, err
	}
	f.store, f.writable = store, true
	return store, nil
}

// Close closes the state.
func (f *Offline) Close() error {
	for _, c := range f.clients {
		c.Close()
	}
	return f.store.Close()
}

// Status implements admin.Control.
func (f *Offline) Status(ctx context.Context) (admin.Status, error) {
	status, _, err := f.status(ctx)
	return status, err
}

// History is of a running bridge alone.
func (f *Offline) History(context.Context) (admin.History, error) {
	return admin.History{}, fmt.Errorf("nothing is sampled: %w", admin.ErrNotRunning)
}

// Tail is of a running bridge alone.
func (f *Offline) Tail(context.Context, admin.From, func(transform.Event) error) error {
	return fmt.Errorf("events are shown as they come: %w", admin.ErrNotRunning)
}

// Pause implements admin.Control: the bridge does not deliver to the sink when it
// runs again.
func (f *Offline) Pause(ctx context.Context, sink string) error { return f.pause(ctx, sink, true) }

// Resume implements admin.Control.
func (f *Offline) Resume(ctx context.Context, sink string) error { return f.pause(ctx, sink, false) }

// Reload is of a running bridge alone.
func (f *Offline) Reload(context.Context) (admin.Reloaded, error) {
	return admin.Reloaded{}, fmt.Errorf("nothing to reload: %w", admin.ErrNotRunning)
}

// Forget drops what the state holds of a sink: its cursor, what it is to get again,
// and its dead letters. It is an error while the configuration has the sink;
// admin.ErrUnknown where the state does not.
func (f *Offline) Forget(ctx context.Context, sink string) error {
	if configures(f.config, sink) {
		return fmt.Errorf("the configuration has the sink %s: take it out first", sink)
	}
	store, err := f.cursorOf(ctx, sink, writing)
	if err != nil {
		return err
	}
	return store.Forget(ctx, sink)
}

// ForgetAppliance drops what the state holds of an appliance, but for the events in the
// journal and the dead letters, so that its streams begin at their start.
// admin.ErrUnknown if it holds nothing.
func (f *Offline) ForgetAppliance(ctx context.Context, name string) error {
	store, err := f.open(writing)
	if err != nil {
		return err
	}
	found, err := store.ForgetAppliance(ctx, name)
	if err == nil && !found {
		err = fmt.Errorf("%w appliance %q: the state keeps nothing of it", admin.ErrUnknown, name)
	}
	return err
}

// ForgetIdentity drops by what an appliance is recognised, and that another one was
// noticed in its place. Its streams go on where they stand. admin.ErrUnknown if the state
// holds nothing of that.
func (f *Offline) ForgetIdentity(ctx context.Context, name string) error {
	store, err := f.open(writing)
	if err != nil {
		return err
	}
	source := identitySource(name)
	position, _, err := readIdentity(ctx, store, source)
	if err == nil && position == nil {
		err = fmt.Errorf("%w appliance %q: the state does not know what it is", admin.ErrUnknown, name)
	}
	if err != nil {
		return err
	}
	return store.Commit(ctx, checkpoint.Commit{Source: source, Expect: position, Position: []byte("{}")})
}

// Rename gives what the state holds of a sink to another name, so that a sink that
// was renamed in the configuration goes on where it stood. It is an error while
// the configuration has the old name, and where the state holds something of the
// new one; admin.ErrUnknown where it holds nothing of the old one.
func (f *Offline) Rename(ctx context.Context, old, name string) error {
	if configures(f.config, old) {
		return fmt.Errorf("the configuration has the sink %s: rename it there first", old)
	}
	store, err := f.cursorOf(ctx, old, writing)
	if err != nil {
		return err
	}
	return store.Rename(ctx, old, name)
}
