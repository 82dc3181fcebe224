package pipeline

import (
	"context"
	"fmt"
	"log/slog"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/transform"
)

// Offline gives an operator access to the state of a bridge that does not run. The file
// is opened for reading only until a method changes something. Its methods must not be
// called concurrently. Methods that need a running bridge return admin.ErrNotRunning.
type Offline struct {
	operator
	writing bool
	clients []*appliance.Client
}

var _ admin.Control = (*Offline)(nil)

// OpenOffline opens the state of a configuration. The error wraps fs.ErrNotExist if there
// is none, and checkpoint.ErrLocked if a bridge is using it.
func OpenOffline(config *configs.Config, version string, log *slog.Logger) (*Offline, error) {
	store, err := checkpoint.Open(config.State, checkpoint.Options{ReadOnly: true, LockWait: -1})
	if err != nil {
		return nil, err
	}
	f := &Offline{operator: operator{config: config, version: version, log: log, store: store}}
	f.writable = f.openForWriting
	f.client = func(a configs.Appliance) (*appliance.Client, error) {
		client, err := endpoint.NewClient(a, endpoint.ClientOptions{Version: version})
		if err == nil {
			f.clients = append(f.clients, client)
		}
		return client, err
	}
	return f, nil
}

// openForWriting reopens the state on its first call.
func (f *Offline) openForWriting() (*checkpoint.Store, error) {
	if f.writing {
		return f.store, nil
	}
	if err := f.store.Close(); err != nil {
		return nil, err
	}
	store, err := checkpoint.Open(f.config.State, checkpoint.Options{Limits: limits(f.config)})
	if err != nil {
		return nil, err
	}
	f.store, f.writing = store, true
	return store, nil
}

// Close closes the state and the clients of appliances.
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

// History returns admin.ErrNotRunning.
func (f *Offline) History(context.Context) (admin.History, error) {
	return admin.History{}, fmt.Errorf("no samples are taken: %w", admin.ErrNotRunning)
}

// Tail yields the events that from selects if from.Live is set. Then it returns
// admin.ErrNotRunning, unless from.Live returns an error.
func (f *Offline) Tail(ctx context.Context, from admin.From, yield func(transform.Event) error) error {
	if _, err := catchUp(ctx, f.store, newTails(nil), from, yield); err != nil {
		return err
	}
	return fmt.Errorf("%w, and new events come only from a running one", admin.ErrNotRunning)
}

// Pause implements admin.Control. The bridge does not deliver to the sink when it runs
// again.
func (f *Offline) Pause(ctx context.Context, sink string) error { return f.pause(ctx, sink, true) }

// Resume implements admin.Control.
func (f *Offline) Resume(ctx context.Context, sink string) error { return f.pause(ctx, sink, false) }

// Reload returns admin.ErrNotRunning.
func (f *Offline) Reload(context.Context) (admin.Reloaded, error) {
	return admin.Reloaded{}, fmt.Errorf("nothing to reload: %w", admin.ErrNotRunning)
}
