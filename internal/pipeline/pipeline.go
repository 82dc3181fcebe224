// Package pipeline runs everything that hangs on one state: sources, the runners of
// sinks, and ticket commands. A Pipeline is built from a configuration, reloaded and
// stopped in an order that loses nothing.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
)

// Options configure a Pipeline beyond its configuration.
type Options struct {
	Version string
	Log     *slog.Logger
	Stdout  io.Writer // used by file sinks with the path -
	Started time.Time // start of the process
	// Registerer receives the pipeline's metrics; Close unregisters them.
	Registerer prometheus.Registerer
	// Pages limits the pages that all sources of the process hold at once.
	Pages *appliance.Budget
	// Reload reloads the configuration of the process, for Control.
	Reload func(context.Context) (admin.Reloaded, error)
	// Ownership is that of the cluster's log, which has the state. The pipeline ends the lease
	// when its state fails, because nothing it sends then could be recorded. Nil outside a
	// cluster.
	Ownership *cluster.Ownership
	// Transport sends the requests to all appliances; nil: each has one of its own.
	Transport http.RoundTripper
}

// Pipeline is everything that hangs on one state. New makes it, Open opens its state
// and makes its parts, Run runs them, and Close closes it. Its other methods are safe
// for concurrent use.
type Pipeline struct {
	options    Options
	registered *registrations
	metrics    *metrics
	store      *checkpoint.Store

	// current is replaced by a reload; it is nil until Open has succeeded.
	current   atomic.Pointer[runtime]
	reloading sync.Mutex
	parts     partSet
	turn      chan context.Context // has Run's context while parts may be started and stopped; see change

	history history
	tails   tails

	verifying, backingUp, testing sync.Mutex
	searching                     *semaphore.Weighted // of the search for a detection
}

// New returns a Pipeline without state and parts, and registers its metrics.
func New(o Options) *Pipeline {
	r := &registrations{Registerer: o.Registerer}
	return &Pipeline{
		options: o, registered: r, metrics: newMetrics(r), tails: newTails(),
		turn: make(chan context.Context, 1), searching: semaphore.NewWeighted(1),
	}
}

// Try makes every part of a configuration that needs no state and discards it. It
// contacts nothing. It returns a *PartError for each part that Open could not make.
func (p *Pipeline) Try(ctx context.Context, config *configs.Config) []error {
	all, failed := p.build(ctx, config, new(runtime))
	closeParts(all.parts())
	return failed
}

// Open opens the state, makes every part, and registers the sinks, without contacting
// an appliance or a sink's target. Its error includes what to do. The caller must call
// Close, even after an error.
func (p *Pipeline) Open(ctx context.Context, config *configs.Config) (err error) {
	if p.store, err = p.openState(config); err != nil {
		return err
	}
	if kept := p.store.Kept(); kept != "" {
		p.options.Log.Info("the state was converted to this version's layout; remove the copy when you will not return to the earlier version", "state", config.State, "copy", kept)
	}
	p.registered.MustRegister(collector{p.store, &p.current})
	all, failed := p.build(ctx, config, new(runtime))
	if err := errors.Join(failed...); err != nil {
		return err
	}
	stats, err := p.registerSinks(ctx, config.Sinks)
	if err != nil {
		return err
	}
	p.logUnconfigured(config, stats)
	if err := p.logWaiting(ctx, config); err != nil {
		return err
	}
	for _, s := range all.sinks {
		s.attach(p.store, stats.Sinks[s.config.Name])
	}
	p.current.Store(all)
	return nil
}

// Close unregisters the metrics and closes the connections to appliances and the state.
// A state that does not close in time is as safe as after a kill.
func (p *Pipeline) Close(s *Stop) {
	p.registered.undo()
	if all := p.current.Load(); all != nil {
		s.Close("the connections to appliances", func() error {
			closeParts(all.parts())
			return nil
		})
	}
	if p.store != nil {
		s.Close("the state", p.store.Close)
	}
}

// Config returns the current configuration. The pipeline must be open.
func (p *Pipeline) Config() *configs.Config { return p.current.Load().config }

// Err returns the error that made the state unusable, or nil. The pipeline must be
// open.
func (p *Pipeline) Err() error { return p.store.Err() }

// NotReady returns the reasons why the pipeline is not ready: an unusable state, a
// stream that has never been read, unless it is off, a halted sink or ticket writer, or a stuck
// sink.
func (p *Pipeline) NotReady() []string {
	all := p.current.Load()
	if all == nil {
		return []string{"the state is being opened"}
	}
	var reasons []string
	if err := p.store.Err(); err != nil {
		reasons = append(reasons, fmt.Sprintf("the state is unusable: %s", err))
	}
	for _, a := range all.appliances {
		for _, stream := range a.streams {
			if s := stream.poller.Status(); s.LastSuccess.IsZero() && !s.Off {
				reasons = append(reasons, fmt.Sprintf("stream %s has not been read yet", s.Source))
			}
		}
		for _, w := range a.writers {
			if w.Status().State == sinks.StateHalted {
				reasons = append(reasons, fmt.Sprintf("writing %ss to appliance %s is halted", w.Kind(), a.config.Name))
			}
		}
	}
	for _, part := range all.sinks {
		if s := part.runner.Status(); s.State == sinks.StateHalted || s.State == sinks.StateStuck {
			reasons = append(reasons, fmt.Sprintf("sink %s is %s", s.Sink, s.State))
		}
	}
	slices.Sort(reasons)
	return reasons
}

// lease returns the lease that bounds everything that is sent. It is nil outside a cluster.
func (p *Pipeline) lease() *lease.Lease {
	if p.options.Ownership == nil {
		return nil
	}
	return p.options.Ownership.Lease
}
