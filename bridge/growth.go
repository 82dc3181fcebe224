package bridge

import (
	"sync"
	"time"
)

// growthOver is the window over which growth is measured.
const growthOver = 5 * time.Minute

// growth measures how fast a number of bytes has grown recently. It is safe for
// concurrent use.
type growth struct {
	mu      sync.Mutex
	samples []sample // in the order of their times
}

type sample struct {
	at    time.Time
	bytes int64
}

func (g *growth) add(at time.Time, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.samples = append(g.samples, sample{at, bytes})
	for at.Sub(g.samples[0].at) > growthOver {
		g.samples = g.samples[1:]
	}
}

// secondsUntil returns the seconds until the bytes reach limit at the recent rate, or 0
// if they do not grow.
func (g *growth) secondsUntil(limit int64) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.samples) < 2 {
		return 0
	}
	first, last := g.samples[0], g.samples[len(g.samples)-1]
	grown, left := last.bytes-first.bytes, limit-last.bytes
	if grown <= 0 || left <= 0 {
		return 0
	}
	return float64(left) / float64(grown) * last.at.Sub(first.at).Seconds()
}
