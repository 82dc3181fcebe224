// Package bridge puts the parts together: it opens the state, starts a poller
// for each stream and a runner for each sink, serves the admin interface, and
// stops them in the order that loses nothing.
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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"ndrbridge/admin"
	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/poller"
	"ndrbridge/sinks"
)

// Options are what a bridge needs beside its configuration.
type Options struct {
	Version string
	Log     *slog.Logger
	Stdout  io.Writer // where file sinks with the path - write
}

// Bridge is a running service, or one that is about to run.
type Bridge struct {
	config   *configs.Config
	log      *slog.Logger
	store    *checkpoint.Store
	clients  map[string]*appliance.Client // by the appliance's name
	watches  []*poller.Watch
	pollers  []*poller.Poller
	runners  []*sinks.Runner
	listener net.Listener
	admin    *http.Server
	serving  sync.WaitGroup // of admin
	opened   atomic.Bool    // pollers and runners are what they will be
}

// New opens the state and makes every part, without contacting an appliance or
// a sink's target. The error says what to do. Run must be called after it, or
// Close.
func New(ctx context.Context, config *configs.Config, o Options) (_ *Bridge, err error) {
	b := &Bridge{config: config, log: o.Log, clients: make(map[string]*appliance.Client)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	if err := b.listen(registry); err != nil {
		return nil, err
	}
	b.store, err = checkpoint.Open(config.State, checkpoint.Options{Limits: limits(config)})
	if err != nil {
		return nil, err
	}
	registry.MustRegister(&stateCollector{store: b.store})
	if err := b.makeSinks(ctx, registry, o); err != nil {
		return nil, err
	}
	if err := b.makeSources(registry, o); err != nil {
		return nil, err
	}
	b.opened.Store(true)
	return b, nil
}

// listen serves the admin interface from now on: a large state takes a while to
// be opened, and who asks for health should not take that for death.
func (b *Bridge) listen(registry *prometheus.Registry) error {
	token, err := b.config.Admin.Token.Read()
	if err != nil {
		return fmt.Errorf("admin.token: %w", err)
	}
	b.listener, err = net.Listen("tcp", b.config.Admin.Listen)
	if err != nil {
		return fmt.Errorf("admin.listen: %w (another bridge may be running; choose another address)", err)
	}
	b.admin = &http.Server{
		Handler:           admin.NewHandler(admin.Options{Token: token, NotReady: b.notReady, Metrics: registry, Control: b.control}),
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
// closes the bridge.
func (b *Bridge) Run(ctx context.Context) error {
	sinksCtx, stopSinks := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSinks()

	var sources, delivery sync.WaitGroup
	sources.Go(func() { b.watchRoom(ctx) })
	for _, r := range b.runners {
		delivery.Go(func() { r.Run(sinksCtx) })
	}
	for _, w := range b.watches {
		sources.Go(func() { w.Run(ctx) })
	}
	for _, p := range b.pollers {
		sources.Go(func() { p.Run(ctx) })
	}
	b.log.Info("running", "admin", "http://"+b.AdminAddress(), "streams", len(b.pollers), "sinks", len(b.runners))

	<-ctx.Done()
	b.log.Info("stopping: batches in flight end first", "shutdown_timeout", b.config.ShutdownTimeout)
	sources.Wait()
	stopSinks()
	delivery.Wait()
	err := b.Close()
	if err == nil {
		b.log.Info("stopped")
	}
	return err
}

// Close closes a bridge that never ran; Run closes it otherwise.
func (b *Bridge) Close() error {
	var errs []error
	if b.admin != nil {
		errs = append(errs, b.admin.Close())
		b.serving.Wait()
	}
	for _, c := range b.clients {
		c.Close()
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	return errors.Join(errs...)
}

// control is what the admin API acts on; nil until the state is open.
func (b *Bridge) control() admin.Control {
	if !b.opened.Load() {
		return nil
	}
	return &operator{
		config: b.config, store: b.store, log: b.log,
		client: func(a configs.Appliance) (*appliance.Client, error) { return b.clients[a.Name], nil },
	}
}

// notReady says why the bridge is not ready: a stream that has not been read
// once, or a sink that is halted.
func (b *Bridge) notReady() []string {
	if !b.opened.Load() {
		return []string{"the state is being opened"}
	}
	var reasons []string
	for _, p := range b.pollers {
		if s := p.Status(); s.LastSuccess.IsZero() {
			reasons = append(reasons, fmt.Sprintf("stream %s has not been read yet", s.Source))
		}
	}
	for _, r := range b.runners {
		if s := r.Status(); s.State == sinks.StateHalted {
			reasons = append(reasons, fmt.Sprintf("sink %s is halted", s.Sink))
		}
	}
	slices.Sort(reasons)
	return reasons
}
