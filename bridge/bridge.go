// Package bridge assembles and runs the service: it opens the state, starts a poller
// for each stream and a runner for each sink, serves the admin interface, applies
// configuration changes at run time, and stops everything in an order that loses
// nothing.
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

// Options configure a Bridge beyond its configuration file.
type Options struct {
	Version string
	// Log is the result of NewLog. The level of any other logger is never changed.
	Log    *slog.Logger
	Stdout io.Writer // used by file sinks with the path -
	// Load reads the configuration again for Reload. If it is nil, Reload fails.
	Load func() (*configs.Config, error)
}

// Bridge is the service. New makes it, Run runs it.
type Bridge struct {
	version  string
	load     func() (*configs.Config, error)
	log      *slog.Logger
	stdout   io.Writer
	started  time.Time
	metrics  *metrics
	store    *checkpoint.Store
	tracing  *tracing.Tracing  // nil if tracing is off
	pages    *appliance.Budget // shared by all sources
	listener net.Listener
	admin    *http.Server
	serving  sync.WaitGroup // waits for the goroutine that serves admin

	// current is replaced by a reload; it is nil until the state is open.
	current  atomic.Pointer[runtime]
	parts    parts
	commands chan command  // run by Run
	ended    chan struct{} // closed once commands are neither accepted nor waited for
	backlog  growth        // of the sink that fillingSink returns
	history  history
	tails    tails

	verifying, backingUp sync.Mutex
}

// pageBudget limits the total bytes of pages that all sources hold at once. A page
// counts until its events are committed; processing it takes a few times its size.
const pageBudget = 16 << 20

// lifetimes holds the parent contexts of parts.
type lifetimes struct {
	sources context.Context // cancelled when Run must stop
	sinks   context.Context // never cancelled; such parts are stopped one by one
}

// command is a function that Run calls between start and stop, one at a time.
type command struct {
	name string // for log and error messages, such as "a reload"
	do   func(lifetimes)
}

// New opens the state and makes every part, without contacting an appliance or a sink's
// target. Its error includes what to do. The caller must then call Run or Close.
//
// If ctx is cancelled, New has shutdown_timeout left to return. After that it returns
// an error and abandons the work in progress: the process should exit.
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
			return nil, fmt.Errorf("start-up did not finish within shutdown_timeout (%s) after the signal and was abandoned: "+
				"it was opening %s and making the parts of the configuration; the next start continues from the same state", config.ShutdownTimeout, config.State)
		}
	}
}

// newBridge returns a Bridge without state and parts.
func newBridge(o Options) *Bridge {
	return &Bridge{
		version: o.Version, load: o.Load, log: o.Log, stdout: o.Stdout, started: time.Now(), metrics: newMetrics(),
		commands: make(chan command), ended: make(chan struct{}), tails: newTails(),
		pages: appliance.NewBudget(pageBudget),
	}
}

// open opens the state, makes every part and registers the sinks.
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

// makeParts makes every part that needs no state, and also the ticket writers if the
// state is open. It contacts nothing.
func (b *Bridge) makeParts(ctx context.Context, config *configs.Config) (*runtime, partErrors) {
	var failed partErrors
	var err error
	b.tracing, err = b.openTracing(config.Tracing)
	failed.add("tracing", err)
	all, others := b.build(ctx, config, new(runtime))
	return all, append(failed, others...)
}

// openAdmin reads the token of the admin interface and listens on its address.
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

// listen starts to serve the admin interface. It is called before the state is opened,
// because opening a large state takes a while and health checks must be answered
// meanwhile.
func (b *Bridge) listen(a configs.Admin) error {
	token, listener, failed := openAdmin(a)
	if failed != nil {
		return failed
	}
	b.listener = listener
	b.admin = admin.NewServer(admin.Options{Token: token, NotReady: b.notReady, Metrics: b.metrics.registry, Control: b.control, Tickets: b.tickets})
	b.serving.Go(func() {
		if err := b.admin.Serve(b.listener); !errors.Is(err, http.ErrServerClosed) {
			b.log.Error("the admin interface stopped; polling and delivery continue", "error", err)
		}
	})
	return nil
}

// AdminAddress returns the address that the admin interface listens on.
func (b *Bridge) AdminAddress() string { return b.listener.Addr().String() }

// ShutdownTimeout returns shutdown_timeout of the current configuration, which a reload
// may change.
func (b *Bridge) ShutdownTimeout() time.Duration {
	return time.Duration(b.current.Load().config.ShutdownTimeout)
}

// Run runs the bridge until ctx is cancelled, then stops it within shutdown_timeout:
// first the sources, then the sinks, each of which may finish its batch in flight. At
// the end of shutdown_timeout remaining work is cut short; anything that still runs
// about a second later is abandoned and named in the error, and the process should
// exit. Run also stops, with an error, if the state becomes unusable. It closes the
// bridge before it returns.
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
	for _, p := range all.intakes {
		p.start(l.sources, &b.parts)
	}
	b.parts.start(ctx, "the monitor of the journal", sourcePhase, prompt(b.watchSpace), prompt(b.keepHistory))
	b.log.Info("running", "admin", "http://"+b.AdminAddress(), "streams", streams, "sinks", len(all.sinks))

	last := b.runCommands(ctx, l)
	timeout := b.ShutdownTimeout()
	d := within(timeout)
	b.log.Info("stopping; batches in flight are finished first", "shutdown_timeout", timeout)
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
		err = errors.Join(fmt.Errorf("these did not stop within shutdown_timeout (%s) and were abandoned: %s; unacknowledged events are delivered again at the next start",
			timeout, strings.Join(left, ", ")), err)
	}
	if err == nil {
		b.log.Info("stopped")
	}
	return err
}

// runningCommand is a command that Run has started.
type runningCommand struct {
	name string
	done chan struct{}
}

// await waits until the command is done or until the given time. It returns the
// command's name if it is not done by then.
func (c *runningCommand) await(until time.Time) []string {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
		return []string{c.name}
	}
}

// runCommands runs commands one by one until ctx is cancelled. It returns the command
// that is still running then, or nil.
func (b *Bridge) runCommands(ctx context.Context, l lifetimes) *runningCommand {
	for {
		select {
		case <-ctx.Done():
			return nil
		case cmd := <-b.commands:
			c := &runningCommand{cmd.name, make(chan struct{})}
			go func() {
				defer close(c.done)
				cmd.do(l)
			}()
			select {
			case <-c.done:
			case <-ctx.Done():
				return c
			}
		}
	}
}

// submit has Run call do, which may start, stop, pause or resume parts; Run never calls
// two commands at once. submit returns when do has returned, even if ctx is cancelled
// meanwhile. It returns admin.ErrNotRunning if Run is about to return, and
// admin.ErrBusy if another command takes longer than a reload may take.
func (b *Bridge) submit(ctx context.Context, name string, do func(lifetimes) error) error {
	result := make(chan error, 1)
	stopping := fmt.Errorf("%w: it is stopping", admin.ErrNotRunning)
	var patience time.Duration // how long a reload may take
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
		return fmt.Errorf("%w: a reload or another command has been running for too long; try again, or restart the bridge", admin.ErrBusy)
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

// Close closes a Bridge that never ran. Run closes it otherwise.
func (b *Bridge) Close() error {
	left, err := b.close(within(maxFlush))
	if len(left) > 0 {
		err = errors.Join(fmt.Errorf("failed to close in time: %s", strings.Join(left, ", ")), err)
	}
	return err
}

// closing is how long after the deadline and windDown closing may take.
const closing = 400 * time.Millisecond

// close closes everything. After the state is closed, it flushes the last spans until
// the deadline. It returns the names of the items that did not close in time; a state
// that did not close is as safe as after a kill.
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

// notReady returns the reasons why the bridge is not ready: an unusable state, a stream
// that has never been read, or a halted sink or ticket writer.
func (b *Bridge) notReady() []string {
	all := b.current.Load()
	if all == nil {
		return []string{"the state is being opened"}
	}
	var reasons []string
	if err := b.store.Err(); err != nil {
		reasons = append(reasons, fmt.Sprintf("the state is unusable: %s", err))
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
