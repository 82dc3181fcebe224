package bridge

import (
	"context"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
)

// watchSpace measures how the journal fills, and tells when sources begin to wait
// for space in it and when a sink is too far behind, and when that is over, until
// ctx ends.
func (b *Bridge) watchSpace(ctx context.Context) {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	waiting, behind := false, make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		stats, err := b.store.Stats(ctx)
		if err != nil {
			continue
		}
		config := b.current.Load().config
		b.backlog.add(time.Now(), stats.Sinks[filling(config, stats)].LagBytes)
		if stats.SourcesWait != waiting {
			waiting = stats.SourcesWait
			b.reportSpace(stats)
		}
		for _, s := range config.Sinks {
			b.reportLag(ctx, s, stats, behind)
		}
	}
}

// filling names the sink that would fill the journal: of those that skip nothing,
// the one with most to settle. It is empty where each of them skips.
func filling(config *configs.Config, stats checkpoint.Stats) string {
	most := ""
	for _, s := range config.Sinks {
		if s.Lag.Policy == configs.LagBlock && (most == "" || stats.Sinks[s.Name].LagBytes > stats.Sinks[most].LagBytes) {
			most = s.Name
		}
	}
	return most
}

// reportSpace tells that sources wait, or that they wait no more.
func (b *Bridge) reportSpace(stats checkpoint.Stats) {
	if !stats.SourcesWait {
		b.log.Info("the journal has space again; polling goes on")
		return
	}
	slowest := ""
	for name, s := range stats.Sinks {
		if s.Configured && (slowest == "" || s.LagBytes > stats.Sinks[slowest].LagBytes) {
			slowest = name
		}
	}
	b.log.Warn("the journal is full, so polling pauses; the appliance keeps the data",
		"sink_that_is_behind", slowest, "lag_events", stats.Sinks[slowest].LagEvents, "max_bytes", stats.MaxBytes)
}

// reportLag tells that a sink that skips nothing has come to be too far behind, or is
// no more. behind holds those that are.
func (b *Bridge) reportLag(ctx context.Context, s configs.Sink, stats checkpoint.Stats, behind map[string]bool) {
	over, err := overLag(ctx, b.store, s, stats)
	if err != nil || s.Lag.Policy != configs.LagBlock || over == behind[s.Name] {
		return
	}
	behind[s.Name] = over
	if !over {
		b.log.Info("the sink is within its lag budget again", "sink", s.Name)
		return
	}
	b.log.Warn("the sink is too far behind; its events are kept, and may in the end fill the journal",
		"sink", s.Name, "lag_events", stats.Sinks[s.Name].LagEvents, "oldest", stats.Sinks[s.Name].Oldest,
		"max_age", s.Lag.MaxAge, "max_bytes", s.Lag.MaxBytes)
}
