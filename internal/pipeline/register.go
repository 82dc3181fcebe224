package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks/file"
	"ndrbridge/transform"
)

// registerSinks configures the sinks in the state. A sink that was not configured for a
// while and missed trimmed events is moved past them, which is logged and journalled.
// It returns the stats of the state.
func (p *Pipeline) registerSinks(ctx context.Context, all []configs.Sink) (checkpoint.Stats, error) {
	if err := p.configure(ctx, all); err != nil {
		return checkpoint.Stats{}, err
	}
	stats, err := p.store.Stats(ctx)
	if err != nil {
		return stats, fmt.Errorf("read the state: %w", err)
	}
	for _, s := range all {
		of := stats.Sinks[s.Name]
		if of.Trimmed == 0 {
			continue
		}
		p.options.Log.Warn("events were trimmed while the sink was not configured; delivery continues after them",
			"sink", s.Name, "missed_events", of.Trimmed)
		if err := p.reportMissed(ctx, s.Name, of); err != nil {
			return stats, fmt.Errorf("sink %s: journal the events it missed: %w", s.Name, err)
		}
	}
	return stats, nil
}

func (p *Pipeline) configure(ctx context.Context, all []configs.Sink) error {
	starts := make(map[string]checkpoint.Start)
	for _, s := range all {
		starts[s.Name] = checkpoint.Start{Now: s.Start.IsNow(), Since: s.Start.At(time.Now())}
	}
	if err := p.store.Configure(ctx, starts); err != nil {
		return fmt.Errorf("configure the sinks in the state: %w", err)
	}
	return nil
}

// logUnconfigured logs the sinks that the state keeps and the configuration lacks, and
// what to do about them.
func (p *Pipeline) logUnconfigured(config *configs.Config, stats checkpoint.Stats) {
	for _, name := range slices.Sorted(maps.Keys(stats.Sinks)) {
		if !configures(config, name) {
			p.options.Log.Warn("the state has the cursor of a sink that is not configured; it is kept and does not hold the journal. "+
				"To remove it, run 'ndrbridge state forget NAME'; to give it to another sink, run 'ndrbridge state rename NAME OTHER'",
				"sink", name, "lag_events", stats.Sinks[name].LagEvents)
		}
	}
}

// configures reports whether the configuration has the sink.
func configures(config *configs.Config, sink string) bool {
	return slices.ContainsFunc(config.Sinks, func(s configs.Sink) bool { return s.Name == sink })
}

// reportMissed moves the cursor of a sink past trimmed events and journals an event
// that reports them. The sink must not run.
func (p *Pipeline) reportMissed(ctx context.Context, sink string, s checkpoint.SinkStats) error {
	until := s.Cursor + s.Trimmed
	event, err := p.ownEvents().SinkSkipped(transform.Skipped{
		Sink: sink, First: s.Cursor + 1, Last: until, Events: s.Trimmed,
		Reason: "they were trimmed while the sink was not configured",
	}, time.Now())
	if err != nil {
		return err
	}
	return p.store.Skip(ctx, checkpoint.Skip{Sink: sink, Expect: s.Cursor, Cursor: until, Event: event})
}

func limits(config *configs.Config) checkpoint.Limits {
	return checkpoint.Limits{
		MaxBytes:  int64(config.Journal.MaxBytes),
		Retain:    time.Duration(config.Journal.Retain),
		DeadBytes: int64(config.DeadLetters.MaxBytes),
	}
}

// logWaiting logs the pending ticket commands that no appliance carries out, and what
// to do about them.
func (p *Pipeline) logWaiting(ctx context.Context, config *configs.Config) error {
	waiting := make(map[string]int) // number of commands by appliance
	names := config.ApplianceNames()
	for after := uint64(0); ; {
		const page = 1000
		commands, err := p.store.Commands(ctx, checkpoint.CommandFilter{State: checkpoint.CommandPending}, after, page)
		if err != nil {
			return fmt.Errorf("read the pending ticket commands: %w", err)
		}
		for _, c := range commands {
			after = c.ID
			if !config.Tickets.Enabled || !slices.Contains(names, c.Appliance) {
				waiting[c.Appliance]++
			}
		}
		if len(commands) < page {
			break
		}
	}
	reason := "for an appliance that is not configured; they are kept until it is configured"
	if !config.Tickets.Enabled {
		reason = "but tickets.enabled is false; they are kept until it is true"
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		p.options.Log.Warn("ticket commands are pending "+reason+" or 'ndrbridge tickets drop' drops them",
			"appliance", name, "commands", waiting[name])
	}
	return nil
}

// CheckStatePath checks whether the state could be created or written. It neither opens
// nor creates a file.
func CheckStatePath(path string) finding.Finding {
	f := file.CheckPath("state", path, "state")[0]
	_, missing := os.Stat(path)
	if _, err := os.Lstat(path); f.Result == finding.OK && errors.Is(missing, fs.ErrNotExist) && err == nil {
		f.Result, f.Detail, f.Advice = finding.Failed, path+" is a link to a file that does not exist", "remove the link, or correct state"
	}
	return f
}

// openState opens the state for a start. It calls CheckStatePath first because its
// findings give better advice than the error of opening.
func (p *Pipeline) openState(config *configs.Config) (*checkpoint.Store, error) {
	if f := CheckStatePath(config.State); f.Result == finding.Failed {
		return nil, &PartError{f.Step, &failure.Advised{Err: errors.New(f.Detail), To: f.Advice}}
	}
	o := checkpoint.Options{Limits: limits(config)}
	if owned := p.options.Ownership; owned != nil {
		o.Log, o.Renew = owned.Log, owned.Renew
	}
	return checkpoint.Open(config.State, o)
}
