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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ndrbridge/admin"
	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/tracing"
	"ndrbridge/sinks"
)

// Options are what a bridge needs beside its configuration.
type Options struct {
	Version string
	// Log is what NewLog returned, or another whose level stays as it is.
	Log    *slog.Logger
	Stdout io.Writer // where file sinks with the path - write
	// Load returns the configuration again, for Reload; nil: there is no other.
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
	tracing  *tracing.Tracing  // nil: nothing is traced
	pages    *appliance.Budget // of all sources
	listener net.Listener
	admin    *http.Server
	serving  sync.WaitGroup // of admin

	// current is replaced by a reload; nil until the state is open.
	current  atomic.Pointer[runtime]
	parts    parts
	commands chan command  // carried out by Run
	ended    chan struct{} // closed when no more orders are taken, or waited for
	backlog  growth        // of the sink that would fill the journal
	history  history
	tails    tails

	verifying, backingUp sync.Mutex
}

// pageBudget bounds the bytes of the pages that all sources hold at once, until their
// events are committed. What is made of a page takes a few times its size.
const pageBudget = 16 << 20

// lifetimes are the contexts that parts run under.
type lifetimes struct {
	sources context.Context // ends when Run is to stop
	sinks   context.Context // of parts that are stopped one by one
}

// command is what Run carries out between its start and its stop.
type command struct {
	name string // for a person, such as "a reload"
	do   func(lifetimes)
}

// New opens the state and makes every part, without contacting an appliance or
// a sink's target. The error says what to do. Run must be called after it, or
// Close. Once ctx has ended it has shutdown_timeout to return; then it returns an
// error, and what it was at is abandoned: the process should exit.
func New(ctx context.Context, config *configs.Config, o Options) (*Bridge, error) {
	b := newBridge(o)
	if err := b.listen(config.Admin); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	made := make(chan error, 1)
	go func() {
		err := b.open(ctx, config)
		if err != nil {
			err = errors.Join(err, b.Close())
		}
		made <- err
	}()
	var late <-chan time.Time
	for stopping := ctx.Done(); ; {
		select {
		case err := <-made:
			if err != nil {
				return nil, err
			}
			return b, nil
		case <-stopping:
			timer := time.NewTimer(time.Duration(config.ShutdownTimeout))
			defer timer.Stop()
			stopping, late = nil, timer.C
		case <-late:
			return nil, fmt.Errorf("the start did not end within shutdown_timeout (%s) after the signal and was abandoned: "+
				"it opens %s and makes the parts of the configuration; the next start goes on from the same state", config.ShutdownTimeout, config.State)
		}
	}
}

// newBridge returns a bridge without parts.
func newBridge(o Options) *Bridge {
	return &Bridge{
		version: o.Version, load: o.Load, log: o.Log, stdout: o.Stdout, started: time.Now(), metrics: newMetrics(),
		commands: make(chan command), ended: make(chan struct{}), tails: newTails(),
		pages: appliance.NewBudget(pageBudget),
	}
}

// open opens the state and makes every part.
func (b *Bridge) open(ctx context.Context, config *configs.Config) (err error) {
	b.store, err = openState(config)
	if err != nil {
		return err
	}
	b.metrics.registry.MustRegister(&stateCollector{store: b.store}, partsCollector{b})
	all, failed := b.makeParts(ctx, config)
	if err := failed.join(); err != nil {
		return err
	}
	stats, err := b.registerSinks(ctx, config.Sinks, ownEvents(config))
	if err != nil {
		return err
	}
	b.logUnconfigured(config, stats)
	if err := b.logWaiting(ctx, config); err != nil {
		return err
	}
	for _, s := range all.sinks {
		s.attach(b.store, stats.Sinks[s.config.Name])
	}
	b.current.Store(all)
	return nil
}

// makeParts makes every part that needs no state, and a writer of tickets only if the
// state is open. It contacts nothing.
func (b *Bridge) makeParts(ctx context.Context, config *configs.Config) (*runtime, partErrors) {
	var failed partErrors
	var err error
	b.tracing, err = b.openTracing(config.Tracing)
	failed.add("tracing", err)
	all, others := b.build(ctx, config, new(runtime))
	return all, append(failed, others...)
}

// openAdmin reads the token of the admin interface and takes its address.
func openAdmin(a configs.Admin) (token string, l net.Listener, failed *partError) {
	token, err := a.Token.Read()
	if err != nil {
		return "", nil, &partError{"admin.token", err}
	}
	l, err = net.Listen("tcp", a.Listen)
	if err != nil {
		return "", nil, &partError{"admin.listen", &sinks.Advised{Err: err, To: "another bridge may be running; choose another address"}}
	}
	return token, l, nil
}

// listen serves the admin interface from now on: a large state takes a while to
// be opened, and who asks for health should not take that for death.
func (b *Bridge) listen(a configs.Admin) error {
	token, listener, failed := openAdmin(a)
	if failed != nil {
		return failed
	}
	b.listener = listener
	b.admin = admin.NewServer(admin.Options{Token: token, NotReady: b.notReady, Metrics: b.metrics.registry, Control: b.control, Tickets: b.tickets})
	b.serving.Go(func() {
		if err := b.admin.Serve(b.listener); !errors.Is(err, http.ErrServerClosed) {
			b.log.Error("the admin interface stopped; polling and delivery go on", "error", err)
		}
	})
	return nil
}

// AdminAddress is where the admin interface listens.
func (b *Bridge) AdminAddress() string { return b.listener.Addr().String() }

// ShutdownTimeout is that of the configuration in use, which a reload may change.
func (b *Bridge) ShutdownTimeout() time.Duration {
	return time.Duration(b.current.Load().config.ShutdownTimeout)
}

// Run runs until ctx ends, then stops within shutdown_timeout: first the sources, then
// the sinks, each of which may end the batch that it has in flight. What is not done
// at the end of shutdown_timeout is cut short, and what goes on all the same is
// abandoned within a second: then the error names it, and the process should exit. Run
// closes the bridge. It stops with an error if the state can no longer be used.
func (b *Bridge) Run(ctx context.Context) error {
	ctx, unwatch := b.untilStateFails(ctx)
	defer unwatch()
	l := lifetimes{sources: ctx, sinks: context.WithoutCancel(ctx)}
	all := b.current.Load()
	streams := 0
	for _, s := range all.sinks {
		s.start(l.sinks, &b.parts)
	}
	for _, a := range all.appliances {
		a.start(l.sources, &b.parts)
		streams += len(a.streams)
	}
	all.heartbeat.start(l.sources, &b.parts)
	for _, d := range all.intakes {
		d.start(l.sources, &b.parts)
	}
	b.parts.start(ctx, "the bridge's own watch", sourcePhase, prompt(b.watchSpace), prompt(b.keepHistory))
	b.log.Info("running", "admin", "http://"+b.AdminAddress(), "streams", streams, "sinks", len(all.sinks))

	last := b.runCommands(ctx, l)
	timeout := b.ShutdownTimeout()
	d := within(timeout)
	b.log.Info("stopping: batches in flight end first", "shutdown_timeout", timeout)
	var left []string
	if last != nil {
		left = append(left, last.await(d.half())...)
	}
	close(b.ended)
	left = append(left, names(stop(context.WithoutCancel(ctx), b.parts.all(), d))...)
	unclosed, err := b.close(d)
	err = errors.Join(err, b.store.Err())
	left = append(left, unclosed...)
	if len(left) > 0 {
		err = errors.Join(fmt.Errorf("these did not stop within shutdown_timeout (%s) and were abandoned: %s; what was not acknowledged is delivered again at the next start",
			timeout, strings.Join(left, ", ")), err)
	}
	if err == nil {
		b.log.Info("stopped")
	}
	return err
}

// carried is an order that is being carried out.
type carried struct {
	name string
	done chan struct{}
}

// await waits for the order until a time. It returns its name if it is not done then.
func (c *carried) await(until time.Time) []string {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
		return []string{c.name}
	}
}

// runCommands carries out orders until ctx ends. It returns the one that is under way then;
// nil: none.
func (b *Bridge) runCommands(ctx context.Context, l lifetimes) *carried {
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-b.commands:
			c := &carried{o.name, make(chan struct{})}
			go func() {
				defer close(c.done)
				o.do(l)
			}()
			select {
			case <-c.done:
			case <-ctx.Done():
				return c
			}
		}
	}
}

// order has Run carry out what starts, stops or steers parts, so that no two of
// that are under way at once. It returns when that is done, even if ctx has ended
// in the meantime. admin.ErrNotRunning once Run is about to end; admin.ErrBusy if
// another order takes longer than a reload ever should.
func (b *Bridge) order(ctx context.Context, name string, do func(lifetimes) error) error {
	result := make(chan error, 1)
	stopping := fmt.Errorf("%w: it is stopping", admin.ErrNotRunning)
	var patience time.Duration // until a reload must be over
	if all := b.current.Load(); all != nil {
		patience = time.Duration(all.config.ShutdownTimeout)
	}
	timer := time.NewTimer(patience + 10*time.Second)
	defer timer.Stop()
	select {
	case b.commands <- command{name, func(l lifetimes) { result <- do(l) }}:
	case <-b.ended:
		return stopping
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%w: a reload or another command has been under way for too long; try again, or restart the bridge", admin.ErrBusy)
	}
	select {
	case err := <-result:
		return err
	case <-b.ended:
	}
	select {
	case err := <-result:
		return err
	default:
		return stopping
	}
}

// Close closes a bridge that never ran; Run closes it otherwise.
func (b *Bridge) Close() error {
	left, err := b.close(within(maxFlush))
	if len(left) > 0 {
		err = errors.Join(fmt.Errorf("these did not close: %s", strings.Join(left, ", ")), err)
	}
	return err
}

// closing is how long what is closed may take behind the deadline and windDown.
const closing = 400 * time.Millisecond

// close closes the bridge. Once the state is safe, the last spans are sent, until the
// deadline. It returns the names of what has not closed a little later. A state that
// has not is as safe as after a kill.
func (b *Bridge) close(d deadline) (left []string, err error) {
	until := d.end.Add(windDown + closing)
	do := func(name string, f func() error) {
		done := make(chan error, 1)
		go func() { done <- f() }()
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case failed := <-done:
			err = errors.Join(err, failed)
		case <-timer.C:
			left = append(left, name)
		}
	}
	if b.admin != nil {
		do("the admin interface", func() error {
			err := b.admin.Close()
			b.serving.Wait()
			return err
		})
	}
	if all := b.current.Load(); all != nil {
		do("the connections to appliances", func() error {
			for _, a := range all.appliances {
				a.client.Close()
			}
			return nil
		})
	}
	if b.store != nil {
		do("the state", b.store.Close)
	}
	if b.tracing != nil {
		ctx, cancel := context.WithDeadline(context.Background(), d.end)
		defer cancel()
		do("the exporter of spans", func() error {
			b.closeTracing(ctx)
			return nil
		})
	}
	return left, err
}

// notReady says why the bridge is not ready: a state that can no longer be used, a
// stream that has not been read once, or a sink or a writer of tickets that is halted.
func (b *Bridge) notReady() []string {
	all := b.current.Load()
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
