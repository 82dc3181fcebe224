package bridge

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"ndrbridge/admin"
	"ndrbridge/configs"
)

// Reload loads the configuration again and applies the differences. Changed appliances
// and sinks are stopped, sources first; a sink finishes its batch in flight within
// shutdown_timeout. They restart from their positions; unchanged parts are not
// disturbed. A part that does not stop in time is named among the changes, and its
// replacement starts once it has stopped.
//
// If Reload returns an error nothing was changed: the configuration is not valid, a
// part cannot be made, or a key differs that cannot change while the bridge runs. It
// returns admin.ErrNotRunning if Run has not begun when ctx is done, or is about to
// return. It is safe for concurrent use.
func (b *Bridge) Reload(ctx context.Context) (admin.Reloaded, error) {
	changes := make(chan []string, 1)
	err := b.submit(ctx, "a reload", func(l lifetimes) error {
		changed, err := b.reload(l)
		changes <- changed
		return err
	})
	if err != nil {
		return admin.Reloaded{}, fmt.Errorf("reload the configuration: %w", err)
	}
	return admin.Reloaded{Changes: <-changes}, nil
}

func (b *Bridge) reload(l lifetimes) ([]string, error) {
	ctx := l.sources // not the caller's, which may be cancelled
	if b.load == nil {
		return nil, errors.New("the bridge has no configuration to load again; restart it")
	}
	config, err := b.load()
	if err != nil {
		return nil, err
	}
	current := b.current.Load()
	if fixed := b.fixed(current.config, config); len(fixed) > 0 {
		return nil, fmt.Errorf("%s cannot change while the bridge runs: restart it, or undo the change", strings.Join(fixed, ", "))
	}
	next, failed := b.build(ctx, config, current)
	if err := failed.join(); err != nil {
		return nil, err
	}
	removed, added := current.without(next), next.without(current)
	// A removed sink holds the journal until it has stopped: events trimmed before
	// would be skipped silently.
	both := slices.Clone(config.Sinks)
	for _, s := range removed.sinks {
		if !configures(config, s.config.Name) {
			both = append(both, s.config)
		}
	}
	stats, err := b.registerSinks(ctx, both, ownEvents(config))
	if err != nil {
		return nil, errors.Join(err, b.configure(ctx, current.config.Sinks))
	}

	// From here on nothing fails, except that the bridge itself stops. Removed parts
	// stop before added ones start, so that no two read one stream or deliver to one
	// sink.
	left := stop(ctx, b.parts.of(removed.names()...), within(time.Duration(current.config.ShutdownTimeout)))
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: it is stopping", admin.ErrNotRunning)
	}
	for _, name := range names(left) {
		b.log.Error("a part that a reload stopped is still running; its replacement waits for it. Restart the bridge if it does not end",
			"part", name, "shutdown_timeout", current.config.ShutdownTimeout)
	}
	if err := b.configure(ctx, config.Sinks); err != nil {
		b.log.Error("removed sinks hold the journal until the next reload or start", "error", err)
	}
	b.logUnconfigured(config, stats)
	if err := b.logWaiting(ctx, config); err != nil {
		b.log.Error("failed to look for ticket commands that no appliance carries out", "error", err)
	}
	b.store.SetLimits(limits(config))
	if l, ok := b.log.Handler().(levelled); ok {
		l.level.Set(levelOf(config.Log))
	}
	for _, s := range added.sinks {
		s.attach(b.store, stats.Sinks[s.config.Name])
		s.start(l.sinks, &b.parts)
	}
	for _, a := range added.appliances {
		a.start(l.sources, &b.parts)
	}
	if added.heartbeat != nil {
		added.heartbeat.start(l.sources, &b.parts)
	}
	b.current.Store(next)
	for _, p := range added.intakes { // they use the acceptor of b.current
		p.start(l.sources, &b.parts)
	}
	b.metrics.forget(current, next)
	for _, a := range removed.appliances {
		a.client.Close()
	}
	changes := current.changes(next)
	for _, name := range names(left) {
		changes = append(changes, name+": the previous one has not stopped within shutdown_timeout")
	}
	for _, line := range changes {
		b.log.Info("configuration reloaded", "change", line)
	}
	return changes, nil
}

// fixed returns the keys that differ and cannot change while the bridge runs.
func (b *Bridge) fixed(current, next *configs.Config) []string {
	keys := []key{
		{"state", current.State, next.State},
		{"admin.listen", current.Admin.Listen, next.Admin.Listen},
		{"admin.token", current.Admin.Token, next.Admin.Token},
		{"log.format", current.Log.Format, next.Log.Format},
		{"tracing", current.Tracing, next.Tracing},
	}
	if _, ok := b.log.Handler().(levelled); !ok {
		keys = append(keys, key{"log.level", current.Log.Level, next.Log.Level})
	}
	return differing(keys)
}

// key is a key of the configuration with its current and its next value.
type key struct {
	name          string
	current, next any
}

// differing returns the names of the keys whose values differ.
func differing(keys []key) []string {
	var names []string
	for _, k := range keys {
		if !reflect.DeepEqual(k.current, k.next) {
			names = append(names, k.name)
		}
	}
	return names
}

// changes returns a line for each difference between r and next.
func (r *runtime) changes(next *runtime) []string {
	var lines []string
	for _, name := range differing([]key{
		{"log.level", r.config.Log.Level, next.config.Log.Level},
		{"shutdown_timeout", r.config.ShutdownTimeout, next.config.ShutdownTimeout},
		{"journal", r.config.Journal, next.config.Journal},
		{"dead_letters", r.config.DeadLetters, next.config.DeadLetters},
		{"events.type_prefix", r.config.Events.TypePrefix, next.config.Events.TypePrefix},
		{"events.heartbeat", r.config.Events.Heartbeat, next.config.Events.Heartbeat},
		{"tickets", r.config.Tickets, next.config.Tickets},
	}) {
		lines = append(lines, name+": changed")
	}
	added, removed := next.without(r), r.without(next)
	for _, p := range added.appliances {
		lines = append(lines, "appliance "+p.config.Name+": "+changeWord(r.appliance(p.config.Name) != nil))
	}
	for _, p := range removed.appliances {
		if next.appliance(p.config.Name) == nil {
			lines = append(lines, "appliance "+p.config.Name+": removed")
		}
	}
	for _, p := range added.intakes {
		lines = append(lines, "tickets."+p.name+": "+changeWord(r.intake(p.name) != nil))
	}
	for _, p := range removed.intakes {
		if next.intake(p.name) == nil {
			lines = append(lines, "tickets."+p.name+": removed")
		}
	}
	for _, p := range added.sinks {
		lines = append(lines, "sink "+p.config.Name+": "+changeWord(r.sink(p.config.Name) != nil))
	}
	for _, p := range removed.sinks {
		if next.sink(p.config.Name) == nil {
			lines = append(lines, "sink "+p.config.Name+": removed")
		}
	}
	return lines
}

func changeWord(existed bool) string {
	if existed {
		return "changed"
	}
	return "added"
}
