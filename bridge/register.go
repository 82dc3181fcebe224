package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/transform"
)

// registerSinks configures the sinks in the state. A sink that was not configured for a
// while and missed trimmed events is moved past them, which is logged and journalled.
// It returns the stats of the state.
func (b *Bridge) registerSinks(ctx context.Context, all []configs.Sink, events transform.Encoder) (checkpoint.Stats, error) {
	if err := b.configure(ctx, all); err != nil {
		return checkpoint.Stats{}, err
	}
	stats, err := b.store.Stats(ctx)
	if err != nil {
		return stats, fmt.Errorf("read the state: %w", err)
	}
	for _, s := range all {
		of := stats.Sinks[s.Name]
		if of.Trimmed == 0 {
			continue
		}
		b.log.Warn("events were trimmed while the sink was not configured; delivery continues after them",
			"sink", s.Name, "missed_events", of.Trimmed)
		if err := b.reportMissed(ctx, events, s.Name, of); err != nil {
			return stats, fmt.Errorf("sink %s: journal the events it missed: %w", s.Name, err)
		}
	}
	return stats, nil
}

func (b *Bridge) configure(ctx context.Context, all []configs.Sink) error {
	starts := make(map[string]checkpoint.Start)
	for _, s := range all {
		starts[s.Name] = checkpoint.Start{Now: s.Start.IsNow(), Since: s.Start.At(time.Now())}
	}
	if err := b.store.Configure(ctx, starts); err != nil {
		return fmt.Errorf("configure the sinks in the state: %w", err)
	}
	return nil
}

// logUnconfigured logs the sinks that the state keeps and the configuration lacks, and
// what to do about them.
func (b *Bridge) logUnconfigured(config *configs.Config, stats checkpoint.Stats) {
	for _, name := range slices.Sorted(maps.Keys(stats.Sinks)) {
		if !configures(config, name) {
			b.log.Warn("the state has the cursor of a sink that is not configured; it is kept and does not hold the journal. "+
				"To remove it, stop the bridge and run 'ndrbridge state forget NAME'; to give it to another sink, run 'ndrbridge state rename NAME OTHER'",
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
func (b *Bridge) reportMissed(ctx context.Context, events transform.Encoder, sink string, s checkpoint.SinkStats) error {
	until := s.Cursor + s.Trimmed
	event, err := events.SinkSkipped(transform.Skipped{
		Sink: sink, First: s.Cursor + 1, Last: until, Events: s.Trimmed,
		Reason: "they were trimmed while the sink was not configured",
	}, time.Now())
	if err != nil {
		return err
	}
	return b.store.Skip(ctx, checkpoint.Skip{Sink: sink, Expect: s.Cursor, Cursor: until, Event: event})
}

func limits(config *configs.Config) checkpoint.Limits {
	return checkpoint.Limits{
		MaxBytes:  int64(config.Journal.MaxBytes),
		Retain:    time.Duration(config.Journal.Retain),
		DeadBytes: int64(config.DeadLetters.MaxBytes),
	}
}
