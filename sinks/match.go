package sinks

import (
	"log/slog"
	"sync"

	"ndrbridge/transform"
)

// tolerant returns a match that lets events through for which match fails. It
// counts the failures, and tells the first.
func tolerant(match func(transform.Event) (bool, error), metrics sinkMetrics, log *slog.Logger) func(transform.Event) bool {
	var told sync.Once
	return func(e transform.Event) bool {
		wanted, err := match(e)
		if err == nil {
			return wanted
		}
		metrics.matchErrors.Inc()
		told.Do(func() {
			log.Warn("match failed for an event, which is sent; later failures are counted alone", "error", err)
		})
		return true
	}
}
