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

// Reload loads the configuration again and changes what differs: appliances and
// sinks that it has otherwise than before are stopped (sources first, and a sink
// ends its batch in flight within shutdown_timeout) and begin over where they
// stood; others go on undisturbed. A part that does not stop in time is named among the
// changes, and what takes its place begins once it has. An error says what is wrong, and nothing was
// changed: a configuration that is not valid, a part that cannot be made, or a key
// that cannot change while the bridge runs. admin.ErrNotRunning where Run has not
// begun when ctx ends, or is about to end. It is safe for concurrent use.
func (b *Bridge) Reload(ctx context.Context) (admin.Reloaded, error) {
	changes := make(chan []string, 1)
	err := b.order(ctx, "a reload", func(l lifetimes) error {
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
	ctx := l.sources // and not that of whoever asks, who may go away
	if b.load == nil {
		return nil, errors.New("the bridge was given its configuration for good; restart it")
	}
	config, err := b.load()
	if err != nil {
		return nil, err
	}
	now := b.current.Load()
	if fixed := b.fixed(now.config, config); len(fixed) > 0 {
		return nil, fmt.Errorf("%s cannot change while the bridge runs: restart it, or take the change back", strings.Join(fixed, ", "))
	}
	next, failed := b.build(ctx, config, now)
	if err := failed.join(); err != nil {
		return nil, err
	}
	goes, comes := now.less(next), next.less(now)
	// A sink that goes holds the journal until it has stopped: what would be trimmed
	// before, it would pass over without a word.
	both := slices.Clone(config.Sinks)
	for _, s := range goes.sinks {
		if !configures(config, s.config.Name) {
			both = append(both, s.config)
		}
	}
	stats, err := b.registerSinks(ctx, both, ownEvents(config))
	if err != nil {
		return nil, errors.Join(err, b.configure(ctx, now.config.Sinks))
	}

	// From here on nothing fails, but for the bridge's own stop. What goes stops before
	// what comes starts, so that no two read one stream or deliver to one sink.
	left := stop(ctx, b.parts.of(goes.names()...), within(time.Duration(now.config.ShutdownTimeout)))
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: it is stopping", admin.ErrNotRunning)
	}
	for _, name := range names(left) {
		b.log.Error("this was stopped by a reload and goes on; what takes its place waits for it. Restart the bridge if it does not end",
			"part", name, "shutdown_timeout", now.config.ShutdownTimeout)
	}
	if err := b.configure(ctx, config.Sinks); err != nil {
		b.log.Error("sinks that were removed hold the journal until the next reload or start", "error", err)
	}
	b.logUnconfigured(config, stats)
	if err := b.logWaiting(ctx, config); err != nil {
		b.log.Error("whether ticket commands wait for nobody could not be told", "error", err)
	}
	b.store.SetLimits(limits(config))
	if l, ok := b.log.Handler().(levelled); ok {
		l.level.Set(levelOf(config.Log))
	}
	for _, s := range comes.sinks {
		s.attach(b.store, stats.Sinks[s.config.Name])
		s.start(l.sinks, &b.parts)
	}
	for _, a := range comes.appliances {
		a.start(l.sources, &b.parts)
	}
	if comes.heartbeat != nil {
		comes.heartbeat.start(l.sources, &b.parts)
	}
	b.current.Store(next)
	for _, d := range comes.intakes { // they hand on to the acceptor of now
		d.start(l.sources, &b.parts)
	}
	b.metrics.forget(now, next)
	for _, a := range goes.appliances {
		a.client.Close()
	}
	changes := now.changes(next)
	for _, name := range names(left) {
		changes = append(changes, name+": the former has not stopped within shutdown_timeout")
	}
	for _, line := range changes {
		b.log.Info("the configuration was loaded again", "change", line)
	}
	return changes, nil
}

// fixed names the keys that differ and that nothing can change while the bridge
// runs.
func (b *Bridge) fixed(now, next *configs.Config) []string {
	keys := []key{
		{"state", now.State, next.State},
		{"admin.listen", now.Admin.Listen, next.Admin.Listen},
		{"admin.token", now.Admin.Token, next.Admin.Token},
		{"log.format", now.Log.Format, next.Log.Format},
		{"tracing", now.Tracing, next.Tracing},
	}
	if _, ok := b.log.Handler().(levelled); !ok {
		keys = append(keys, key{"log.level", now.Log.Level, next.Log.Level})
	}
	return differing(keys)
}

// key is one of the configuration, with the values that it had and has.
type key struct {
	name      string
	now, next any
}

// differing names the keys whose values differ.
func differing(keys []key) []string {
	var names []string
	for _, k := range keys {
		if !reflect.DeepEqual(k.now, k.next) {
			names = append(names, k.name)
		}
	}
	return names
}

// changes tells, for a person, what differs in next.
func (a *runtime) changes(next *runtime) []string {
	var lines []string
	for _, name := range differing([]key{
		{"log.level", a.config.Log.Level, next.config.Log.Level},
		{"shutdown_timeout", a.config.ShutdownTimeout, next.config.ShutdownTimeout},
		{"journal", a.config.Journal, next.config.Journal},
		{"dead_letters", a.config.DeadLetters, next.config.DeadLetters},
		{"events.type_prefix", a.config.Events.TypePrefix, next.config.Events.TypePrefix},
		{"events.heartbeat", a.config.Events.Heartbeat, next.config.Events.Heartbeat},
		{"tickets", a.config.Tickets, next.config.Tickets},
	}) {
		lines = append(lines, name+": changed")
	}
	comes, goes := next.less(a), a.less(next)
	for _, p := range comes.appliances {
		lines = append(lines, "appliance "+p.config.Name+": "+cameFrom(a.appliance(p.config.Name) != nil))
	}
	for _, p := range goes.appliances {
		if next.appliance(p.config.Name) == nil {
			lines = append(lines, "appliance "+p.config.Name+": removed")
		}
	}
	for _, p := range comes.intakes {
		lines = append(lines, "tickets."+p.name+": "+cameFrom(a.intake(p.name) != nil))
	}
	for _, p := range goes.intakes {
		if next.intake(p.name) == nil {
			lines = append(lines, "tickets."+p.name+": removed")
		}
	}
	for _, p := range comes.sinks {
		lines = append(lines, "sink "+p.config.Name+": "+cameFrom(a.sink(p.config.Name) != nil))
	}
	for _, p := range goes.sinks {
		if next.sink(p.config.Name) == nil {
			lines = append(lines, "sink "+p.config.Name+": removed")
		}
	}
	return lines
}

func cameFrom(there bool) string {
	if there {
		return "changed"
	}
	return "added"
}
