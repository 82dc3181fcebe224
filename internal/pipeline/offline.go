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
)

// Offline is a client of the state of a bridge that does not run. The file is opened for
// reading only until a method changes something. Its methods must not be called concurrently.
// Methods that need a running bridge return admin.ErrNotRunning.
type Offline struct {
	*admin.Client
	operator operator
	writing  bool
	clients  []*appliance.Client
}

// OpenOffline opens the state of a configuration. The error wraps fs.ErrNotExist if there
// is none, and checkpoint.ErrLocked if a bridge is using it.
func OpenOffline(config *configs.Config, version string, log *slog.Logger) (*Offline, error) {
	store, err := checkpoint.Open(config.State, checkpoint.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	f := &Offline{operator: operator{config: config, version: version, log: log, store: store}}
	f.operator.writable = f.openForWriting
	f.operator.client = func(a configs.Appliance) (*appliance.Client, error) {
		client, err := endpoint.NewClient(a, endpoint.ClientOptions{Version: version})
		if err == nil {
			f.clients = append(f.clients, client)
		}
		return client, err
	}
	all := f.operator.operations()
	admin.API.GetStatus.By(all, func(ctx context.Context, _ admin.None) (admin.Status, error) {
		status, _, err := f.operator.knownStatus(ctx)
		return status, err
	})
	admin.API.GetHistory.By(all, func(context.Context, admin.None) (admin.History, error) {
		return admin.History{}, fmt.Errorf("no samples are taken: %w", admin.ErrNotRunning)
	})
	admin.API.Reload.By(all, func(context.Context, admin.None) (admin.Reloaded, error) {
		return admin.Reloaded{}, fmt.Errorf("nothing to reload: %w", admin.ErrNotRunning)
	})
	admin.API.TailEvents.By(all, f.tail)
	// They take effect when the bridge runs again.
	admin.API.PauseSink.By(all, func(ctx context.Context, r admin.OfSink) error { return f.operator.pause(ctx, r.Sink, true) })
	admin.API.ResumeSink.By(all, func(ctx context.Context, r admin.OfSink) error { return f.operator.pause(ctx, r.Sink, false) })
	f.Client = admin.NewLocal(all)
	return f, nil
}

// openForWriting reopens the state on its first call.
func (f *Offline) openForWriting() (*checkpoint.Store, error) {
	if f.writing {
		return f.operator.store, nil
	}
	if err := f.operator.store.Close(); err != nil {
		return nil, err
	}
	store, err := checkpoint.Open(f.operator.config.State, checkpoint.Options{Limits: limits(f.operator.config)})
	if err != nil {
		return nil, err
	}
	f.operator.store, f.writing = store, true
	return store, nil
}

// Close closes the state and the clients of appliances.
func (f *Offline) Close() error {
	for _, c := range f.clients {
		c.Close()
	}
	return f.operator.store.Close()
}

// tail yields the events that the request selects if its Live is set. Then it returns
// admin.ErrNotRunning, unless Live returns an error.
func (f *Offline) tail(ctx context.Context, r admin.TailRequest) error {
	if _, err := catchUp(ctx, f.operator.store, newTails(), r.From, r.Yield); err != nil {
		return err
	}
	return fmt.Errorf("%w, and new events come only from a running one", admin.ErrNotRunning)
}
