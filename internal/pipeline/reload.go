package pipeline

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"ndrbridge/configs"
)

// Reload applies the configuration that load returns, which is called with the current
// one. Other commands are carried out while it is loaded and its parts are made, which Options
// can limit. Changed appliances and sinks are stopped, sources first; a sink finishes its
// batch in flight within shutdown_timeout. They restart from their positions; unchanged
// parts are not disturbed. A part that does not stop in time is named among the changes,
// and its replacement starts once it has stopped.
//
// If Reload returns an error nothing was changed: load failed, or a part cannot be made.
// It returns ctx's error if Run has not begun when ctx is done, admin.ErrNotRunning if Run is
// about to return, and admin.ErrBusy if an earlier reload is still running. Reloads run one at
// a time.
func (p *Pipeline) Reload(ctx context.Context, load func(current *configs.Config) (*configs.Config, error)) (changes []string, err error) {
	var next successor
	done, err := p.loader.Load(ctx, func(ctx context.Context) { next = p.makeSuccessor(ctx, load) }, func() { next.close() })
	if err != nil {
		return nil, err
	}
	defer done()
	result := make(chan []string, 1)
	if err = next.err; err == nil {
		err = p.submit(ctx, "a reload", func(l lifetimes) error {
			changes, err := p.replace(l, next.current, next.runtime)
			result <- changes
			return err
		})
	}
	if err != nil {
		next.close()
		return nil, err
	}
	return <-result, nil
}

// successor is a runtime to replace the current one.
type successor struct {
	*runtime // nil if the configuration could not be loaded
	current  *runtime
	err      error // of loading or of making parts
}

// makeSuccessor loads a configuration and makes its parts.
func (p *Pipeline) makeSuccessor(ctx context.Context, load func(*configs.Config) (*configs.Config, error)) successor {
	current := p.current.Load() // only a reload replaces it
	config, err := load(current.config)
	if err != nil {
		return successor{current: current, err: err}
	}
	next, failed := p.build(ctx, config, current)
	return successor{next, current, failed.Join()}
}

// close closes the connections of a successor that will not be used.
func (s successor) close() {
	if s.runtime != nil {
		s.without(s.current).close()
	}
}

// replace replaces the current runtime by the next one.
func (p *Pipeline) replace(l lifetimes, current, next *runtime) ([]string, error) {
	ctx, config := l.sources, next.config // not the caller's context, which may be cancelled
	removed, added := current.without(next), next.without(current)
	// A removed sink holds the journal until it has stopped: events trimmed before
	// would be skipped silently.
	both := slices.Clone(config.Sinks)
	for _, s := range removed.sinks {
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
	stopping, beatsDiffer := removed.names(), config.Events != current.config.Events
	if beatsDiffer {
		stopping = append(stopping, heartbeatPart)
	}
	left := stopParts(ctx, p.parts.of(stopping...), Within(time.Duration(current.config.ShutdownTimeout)))
	if ctx.Err() != nil {
		return nil, errStopping
	}
	for _, name := range partNames(left) {
		p.log.Error("a part that a reload stopped is still running; its replacement waits for it. Restart the bridge if it does not end",
			"part", name, "shutdown_timeout", current.config.ShutdownTimeout)
	}
	if err := p.configure(ctx, config.Sinks); err != nil {
		p.log.Error("removed sinks hold the journal until the next reload or start", "error", err)
	}
	changes := current.changes(next)
	if len(changes) > 0 { // otherwise it was logged before
		p.logUnconfigured(config, stats)
		if err := p.logWaiting(ctx, config); err != nil {
			p.log.Error("failed to look for ticket commands that no appliance carries out", "error", err)
		}
	}
	p.store.SetLimits(limits(config))
	if p.applied != nil {
		p.applied(config)
	}
	for _, s := range added.sinks {
		s.attach(p.store, stats.Sinks[s.config.Name])
	}
	p.current.Store(next) // intakes and sinks use its acceptor
	added.start(l, &p.parts)
	if beatsDiffer {
		p.startHeartbeat(ctx, time.Duration(config.Events.Heartbeat))
	}
	p.metrics.forget(current, next)
	removed.close()
	for _, name := range partNames(left) {
		changes = append(changes, name+": the previous one has not stopped within shutdown_timeout")
	}
	for _, line := range changes {
		p.log.Info("configuration changed", "change", line)
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
		{"events.heartbeat", r.config.Events.Heartbeat, next.config.Events.Heartbeat},
		{"tickets", r.config.Tickets, next.config.Tickets},
	} {
		if !reflect.DeepEqual(key.current, key.next) {
			lines = append(lines, key.name+": changed")
		}
	}
	lines = append(lines, changedParts(r.appliances, next.appliances)...)
	lines = append(lines, changedParts(r.intakes, next.intakes)...)
	return append(lines, changedParts(r.sinks, next.sinks)...)
}

// changedParts returns a line for each part that was added, changed or removed.
func changedParts[P part](current, next []P) (lines []string) {
	was, is := names(current), names(next)
	for _, name := range names(without(next, current)) {
		change := "added"
		if slices.Contains(was, name) {
			change = "changed"
		}
		lines = append(lines, name+": "+change)
	}
	for _, name := range was {
		if !slices.Contains(is, name) {
			lines = append(lines, name+": removed")
		}
	}
	return lines
}
