package poller

import (
	"sync"
	"time"

	"ndrbridge/checkpoint"
)

// Progress is how far a stream has come.
type Progress struct {
	// At is the appliance's time up to which everything was read.
	At time.Time
	// Behind is how much can be read beyond At; 0 once it was read to its end.
	Behind time.Duration
	// EventsPerSecond is how fast it is read; 0 where that is not known yet.
	EventsPerSecond float64
	// SpeedUp is how many seconds of the appliance's time are read in one.
	SpeedUp float64
	// Left is how long it takes until there is nothing more to read, at this
	// speed; 0 where it cannot be told, and where it is done.
	Left time.Duration
}

// progressMeter tells how far a source has come, and measures how fast it reads, over
// stretches of time.
type progressMeter struct {
	source  checkpoint.Source
	metrics *Metrics
	now     func() time.Time

	mu       sync.Mutex
	progress Progress

	// The stretch that is being measured, the source's alone.
	since    time.Time // zero: it begins with what is reached next
	from     int64     // where the stream was read up to
	events   int
	measured bool // a stretch was measured, and holds until the next is
}

// measureFor is how long is measured before it is told.
const measureFor = 30 * time.Second

func newProgressMeter(source checkpoint.Source, metrics *Metrics, now func() time.Time) *progressMeter {
	return &progressMeter{source: source, metrics: metrics, now: now}
}

// current is what a source's Progress returns. It is safe for concurrent use.
func (p *progressMeter) current() (progress Progress, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress, !p.progress.At.IsZero()
}

// begin begins to measure again.
func (p *progressMeter) begin() { p.since, p.measured = time.Time{}, false }

// count takes note of a commit of the source.
func (p *progressMeter) count(c checkpoint.Commit) {
	p.metrics.committed(p.source, c)
	p.events += len(c.Events)
}

// reached takes note of where the stream was read up to, and how much there is
// behind that, both in milliseconds of the appliance's time. It reports whether a
// stretch has ended.
func (p *progressMeter) reached(at, behind int64) (measured bool) {
	p.metrics.behind(p.source, behind)
	p.mu.Lock()
	defer p.mu.Unlock()
	now, next := p.now(), &p.progress
	if p.since.IsZero() || at < p.from {
		p.since, p.from, p.events, p.measured = now, at, 0, false
		next.EventsPerSecond, next.SpeedUp = 0, 0 // those were of another stretch
	}
	next.At, next.Behind = time.UnixMilli(at), time.Duration(behind)*time.Millisecond
	elapsed := now.Sub(p.since)
	measured = elapsed >= measureFor
	if elapsed > 0 && (measured || !p.measured) {
		next.EventsPerSecond = float64(p.events) / elapsed.Seconds()
		next.SpeedUp = float64(at-p.from) / 1000 / elapsed.Seconds()
	}
	next.Left = 0
	if behind > 0 && next.SpeedUp > 1 { // the present moves on meanwhile
		next.Left = time.Duration(float64(next.Behind) / (next.SpeedUp - 1))
	}
	if measured {
		p.since, p.from, p.events, p.measured = now, at, 0, true
	}
	return measured
}

// caughtUp takes note that there is nothing more to read for now, up to a time;
// not above 0: it is not known.
func (p *progressMeter) caughtUp(at int64) {
	p.metrics.behind(p.source, 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress.Behind, p.progress.Left = 0, 0
	if at > 0 {
		p.progress.At = time.UnixMilli(at)
	}
}
