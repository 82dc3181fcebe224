package pipeline

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

var errStopping = fmt.Errorf("%w: it is stopping", admin.ErrNotRunning)

// change calls do, which may start, stop, pause or resume parts, with the context of Run while that
// runs them and no other change is made. It returns admin.ErrNotRunning if Run stops, and admin.ErrBusy if another
// change takes longer than a reload may take.
func (p *Pipeline) change(ctx context.Context, do func(ctx context.Context) error) error {
	var patience time.Duration // how long a reload may take
	if all := p.current.Load(); all != nil {
		patience = time.Duration(all.config.ShutdownTimeout)
	}
	select {
	case running := <-p.turn:
		defer func() { p.turn <- running }()
		if running.Err() != nil {
			return errStopping
		}
		return do(running)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience + 10*time.Second):
		return fmt.Errorf("%w: a reload or another command has been running for too long; try again, or restart the bridge", admin.ErrBusy)
	}
}

// awaitChange waits until no change is being made. It reports false if one is at the given time.
func (p *Pipeline) awaitChange(until time.Time) bool {
	select {
	case running := <-p.turn:
		p.turn <- running
		return true
	case <-time.After(max(time.Until(until), time.Millisecond)): // in which a free turn is received
		return false
	}
}

// Reload applies the configuration that load returns, which is called once no other reload runs:
// the last reload applies what is current then. Changed appliances and sinks are stopped, sources
// first; a sink finishes its batch in flight within shutdown_timeout. They restart from their
// positions; unchanged parts are not disturbed. A part that does not stop in time is named among
// the changes, and its replacement starts once it has stopped.
//
// If Reload returns an error nothing was changed: a part cannot be made. It returns ctx's error if
// Run has not begun when ctx is done, and otherwise the errors of change. Reloads run one at a
// time.
func (p *Pipeline) Reload(ctx context.Context, load func() *configs.Config) (changes []string, err error) {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	current := p.current.Load()
	next, failed := p.build(ctx, load(), current)
	if err = errors.Join(failed...); err == nil {
		err = p.change(ctx, func(running context.Context) (err error) {
			changes, err = p.replace(running, current, next)
			return err
		})
	}
	if err != nil {
		closeParts(next.without(current))
	}
	return changes, err
}

// replace replaces the current runtime by the next one. ctx is the context of Run.
func (p *Pipeline) replace(ctx context.Context, current, next *runtime) ([]string, error) {
	config := next.config
	removed, added := current.without(next), next.without(current)
	// A removed sink holds the journal until it has stopped: events trimmed before
	// would be skipped silently.
	both := slices.Clone(config.Sinks)
	for _, s := range current.sinks {
		if !configures(config, s.config.Name) {
			both = append(both, s.config)
		}
	}
	stats, err := p.registerSinks(ctx, both)
	if err != nil {
		return nil, errors.Join(err, p.configure(ctx, current.config.Sinks))
	}

	// From here on nothing fails, except that the pipeline itself stops. Removed parts
	// stop before added ones start, so that no two read one stream or deliver to one
	// sink.
	left := stopParts(ctx, p.parts.of(names(removed)...), NewStop(time.Duration(current.config.ShutdownTimeout)))
	if ctx.Err() != nil {
		return nil, errStopping
	}
	for _, name := range sortedNames(left) {
		p.options.Log.Error("a part that a reload stopped is still running; its replacement waits for it. Restart the bridge if it does not end",
			"part", name, "shutdown_timeout", current.config.ShutdownTimeout)
	}
	if err := p.configure(ctx, config.Sinks); err != nil {
		p.options.Log.Error("removed sinks hold the journal until the next reload or start", "error", err)
	}
	changes := current.changes(next)
	if len(changes) > 0 { // otherwise it was logged before
		p.logUnconfigured(config, stats)
		if err := p.logWaiting(ctx, config); err != nil {
			p.options.Log.Error("failed to look for ticket commands that no appliance carries out", "error", err)
		}
	}
	p.store.SetLimits(limits(config))
	for _, s := range next.sinks {
		if s.runner == nil {
			s.attach(p.store, stats.Sinks[s.config.Name])
		}
	}
	p.current.Store(next) // intakes and sinks use its acceptor
	p.start(ctx, added)
	p.metrics.forget(current, next)
	closeParts(removed)
	for _, name := range sortedNames(left) {
		changes = append(changes, name+": the previous one has not stopped within shutdown_timeout")
	}
	for _, line := range changes {
		p.options.Log.Info("configuration changed", "change", line)
	}
	return changes, nil
}

// changes returns a line for each difference between r and next.
func (r *runtime) changes(next *runtime) []string {
	var lines []string
	for _, key := range []struct {
		name          string
		current, next any
	}{
		{"log.level", r.config.Log.Level, next.config.Log.Level},
		{"reload", r.config.Reload, next.config.Reload},
		{"shutdown_timeout", r.config.ShutdownTimeout, next.config.ShutdownTimeout},
		{"journal", r.config.Journal, next.config.Journal},
		{"dead_letters", r.config.DeadLetters, next.config.DeadLetters},
		{"tickets", r.config.Tickets, next.config.Tickets},
	} {
		if !reflect.DeepEqual(key.current, key.next) {
			lines = append(lines, key.name+": changed")
		}
	}
	for _, p := range next.without(r) {
		change := "added"
		if r.has(p.name) {
			change = "changed"
		}
		lines = append(lines, p.name+": "+change)
	}
	for _, p := range r.parts() {
		if !next.has(p.name) {
			lines = append(lines, p.name+": removed")
		}
	}
	return lines
}
