package bridge

import (
	"context"
	"time"
)

// watchRoom tells when sources begin to wait for room in the journal, and which
// sink holds it, until ctx ends.
func (b *Bridge) watchRoom(ctx context.Context) {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for waiting := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		stats, err := b.store.Stats(ctx)
		if err != nil || stats.SourcesWait == waiting {
			continue
		}
		if waiting = stats.SourcesWait; !waiting {
			b.log.Info("the journal has room again; polling goes on")
			continue
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
}
