// Package bridge puts the parts together: it opens the state, starts a poller
// for each stream and a runner for each sink, serves the admin interface, changes
// what runs when the configuration changes, and stops it all in the order that
// loses nothing.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/sinks"
	"ndrbridge/tracing"
)

// Options are what a bridge needs beside its configuration.
type Options struct {
	Version string
	// Log is what NewLog returned, or another whose level stays as it is.
	Log    *slog.Logger
	Stdout io.Writer // where file sinks with the path - write
	// Load returns the configuration anew, for Reload; nil: there is no other.
	Load func() (*configs.Config, error)
}

// Bridge is a running service, or one that is about to run.
type Bridge struct {
	version  string
	load     func() (*configs.Config, error)
	log      *slog.Logger
	stdout   io.Writer
	started  time.Time
	metrics  *metrics
	store    *checkpoint.Store
	tracing  *tracing.Tracing // nil: nothing is traced
	listener net.Listener
	admin    *http.Server
	serving  sync.WaitGroup // of admin

	// arranged is replaced by a reload; nil until the state is open.
	arranged  atomic.Pointer[arrangement]
	orders    chan func(lifetimes) // carried out by Run
	ended     chan struct{}        // closed when no more orders are taken
	unsettled growth               // of the sink that would fill the journal
	history   history

	verifying sync.Mutex
}

// lifetimes are the contexts that parts run under.
type lifetimes struct {
	sources context.Context
	sinks   context.Context // ends after sources
}

// New opens the state and makes every part, without contacting an appliance or
// a sink's target. The error says what to do. Run must be called after it, or
// Close.
func New(ctx context.Context, config *configs.Config, o Options) (_ *Bridge, err error) {
	b := &Bridge{
		version: o.Version, load: o.Load, log: o.Log, stdout: o.Stdout, started: time.Now(), metrics: newMetrics(),
		orders: make(chan func(lifetimes)), ended: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if err := b.listen(config.Admin); err != nil {
		return nil, err
	}
	b.store, err = checkpoint.Open(config.State, checkpoint.Options{Limits: limits(config)})
	if err != nil {
		return nil, err
	}
	b.metrics.registry.MustRegister(&stateCollector{store: b.store}, partsCollector{b})
	if b.tracing, err = b.openTracing(config.Tracing); err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	all, err := b.arrange(ctx, config, new(arrangement))
	if err != nil {
		return nil, err
	}
	stats, err := b.introduce(ctx, config.Sinks, ownEvents(config))
	if err != nil {
		return nil, err
	}
	b.tellUnconfigured(config, stats)
	if err := b.tellWaiting(ctx, config); err != nil {
		return nil, err
	}
	for _, s := range all.sinks {
		s.employ(b.store, stats.Sinks[s.config.Name])
	}
	b.arranged.Store(all)
	return b, nil
}

// listen serves the admin interface from now on: a large state takes a while to
// be opened, and who asks for health should not take that for death.
func (b *Bridge) listen(a configs.Admin) error {
	token, err := a.Token.Read()
	if err != nil {
		return fmt.Errorf("admin.token: %w", err)
	}
	b.listener, err = net.Listen("tcp", a.Listen)
	if err != nil {
		return fmt.Errorf("admin.listen: %w (another bridge may be running; choose another address)", err)
	}
	b.admin = &http.Server{
		Handler:           admin.NewHandler(admin.Options{Token: token, NotReady: b.notReady, Metrics: b.metrics.registry, Control: b.control, Tickets: b.tickets}),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	b.serving.Go(func() {
		if err := b.admin.Serve(b.listener); !errors.Is(err, http.ErrServerClosed) {
			b.log.Error("the admin interface stopped; polling and delivery go on", "error", err)
		}
	})
	return nil
}

// AdminAddress is where the admin interface listens.
func (b *Bridge) AdminAddress() string { return b.listener.Addr().String() }

// Run runs until ctx ends, then stops: first the sources, then the sinks, each
// of which ends the batch that it has in flight within shutdown_timeout. It
// closes the bridge. It stops with an error if the state can no longer be used.
func (b *Bridge) Run(ctx context.Context) error {
	ctx, unwatch := b.untilStateFails(ctx)
	defer unwatch()
	sinksCtx, stopSinks := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSinks()
	l := lifetimes{sources: ctx, sinks: sinksCtx}

	all := b.arranged.Load()
	streams := 0
	for _, s := range all.sinks {
		s.start(l.sinks)
	}
	for _, a := range all.appliances {
		a.start(l.sources)
		streams += len(a.streams)
	}
	all.heart.start(l.sources)
	for _, d := range all.doors {
		d.start(l.sources)
	}
	watching := startPart(ctx, b.watchRoom, b.keepHistory)
	b.log.Info("running", "admin", "http://"+b.AdminAddress(), "streams", streams, "sinks", len(all.sinks))

	b.obey(ctx, l)
	all = b.arranged.Load()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(all.config.ShutdownTimeout))
	defer cancel()
	b.log.Info("stopping: batches in flight end first", "shutdown_timeout", all.config.ShutdownTimeout)
	end(append(all.sources(), watching)...)
	stopSinks()
	end(all.delivery()...)
	err := errors.Join(b.close(late), b.store.Err())
	if err == nil {
		b.log.Info("stopped")
	}
	return err
}

// obey carries out orders until ctx ends.
func (b *Bridge) obey(ctx context.Context, l lifetimes) {
	defer close(b.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case order := <-b.orders:
			order(l)
		}
	}
}

// order has Run carry out what starts, stops or steers parts, so that no two of
// that are under way at once. It returns when that is done, even if ctx has ended
// in the meantime. admin.ErrNotRunning once Run is about to end.
func (b *Bridge) order(ctx context.Context, do func(lifetimes) error) error {
	result := make(chan error, 1)
	select {
	case b.orders <- func(l lifetimes) { result <- do(l) }:
		return <-result
	case <-b.ended:
		return fmt.Errorf("%w: it is stopping", admin.ErrNotRunning)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes a bridge that never ran; Run closes it otherwise.
func (b *Bridge) Close() error { return b.close(context.Background()) }

// close closes the bridge. Once the state is safe, the last spans are sent, until late
// ends.
func (b *Bridge) close(late context.Context) error {
	var errs []error
	if b.admin != nil {
		errs = append(errs, b.admin.Close())
		b.serving.Wait()
	}
	if all := b.arranged.Load(); all != nil {
		for _, a := range all.appliances {
			a.client.Close()
		}
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	if b.tracing != nil {
		b.closeTracing(late)
	}
	return errors.Join(errs...)
}

// notReady says why the bridge is not ready: a state that can no longer be used, a
// stream that has not been read once, or a sink or a writer of tickets that is halted.
func (b *Bridge) notReady() []string {
	all := b.arranged.Load()
	if all == nil {
		return []string{"the state is being opened"}
	}
	var reasons []string
	if err := b.store.Err(); err != nil {
		reasons = append(reasons, fmt.Sprintf("the state can no longer be used: %s", err))
	}
	for _, a := range all.appliances {
		for _, stream := range a.streams {
			if s := stream.poller.Status(); s.LastSuccess.IsZero() {
				reasons = append(reasons, fmt.Sprintf("stream %s has not been read yet", s.Source))
			}
		}
		if a.writer != nil && a.writer.Status().State == sinks.StateHalted {
			reasons = append(reasons, fmt.Sprintf("writing tickets to appliance %s is halted", a.config.Name))
		}
	}
	for _, p := range all.sinks {
		if s := p.runner.Status(); s.State == sinks.StateHalted {
			reasons = append(reasons, fmt.Sprintf("sink %s is halted", s.Sink))
		}
	}
	slices.Sort(reasons)
	return reasons
}
