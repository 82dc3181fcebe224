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
	// EventsPerSecond is how fast it is read; 0 if that is not known yet.
	EventsPerSecond float64
	// SpeedUp is how many seconds of the appliance's time are read per second.
	SpeedUp float64
	// Left is how long it takes until there is nothing more to read, at this speed;
	// 0 if that is not known, or if there is nothing left.
	Left time.Duration
}

// progressMeter keeps a source's progress, and measures how fast the source reads, over
// one interval after another.
type progressMeter struct {
	source  checkpoint.Source
	metrics *Metrics
	now     func() time.Time

	mu       sync.Mutex
	progress Progress

	// The interval being measured. Only the source uses these fields.
	since    time.Time // zero: it begins with the next call of reached
	from     int64     // up to where the stream was read at its beginning
	events   int
	measured bool // an interval was measured, and is reported until the next one is
}

// measureFor is the length of an interval.
const measureFor = 30 * time.Second

func newProgressMeter(source checkpoint.Source, metrics *Metrics, now func() time.Time) *progressMeter {
	return &progressMeter{source: source, metrics: metrics, now: now}
}

// current returns the source's progress. It is safe for concurrent use.
func (p *progressMeter) current() (progress Progress, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress, !p.progress.At.IsZero()
}

// begin starts a new measurement.
func (p *progressMeter) begin() { p.since, p.measured = time.Time{}, false }

// count counts a commit of the source.
func (p *progressMeter) count(c checkpoint.Commit) {
	p.metrics.committed(p.source, c)
	p.events += len(c.Events)
}

// reached records up to where the stream was read, and how much there is after that, both
// in milliseconds of the appliance's time. It reports whether an interval has ended.
func (p *progressMeter) reached(at, behind int64) (measured bool) {
	p.metrics.behind(p.source, behind)
	p.mu.Lock()
	defer p.mu.Unlock()
	now, next := p.now(), &p.progress
	if p.since.IsZero() || at < p.from {
		p.since, p.from, p.events, p.measured = now, at, 0, false
		next.EventsPerSecond, next.SpeedUp = 0, 0 // they belong to another interval
	}
	next.At, next.Behind = time.UnixMilli(at), time.Duration(behind)*time.Millisecond
	elapsed := now.Sub(p.since)
	measured = elapsed >= measureFor
	if elapsed > 0 && (measured || !p.measured) {
		next.EventsPerSecond = float64(p.events) / elapsed.Seconds()
		next.SpeedUp = float64(at-p.from) / 1000 / elapsed.Seconds()
	}
	next.Left = 0
	if behind > 0 && next.SpeedUp > 1 { // the present moves on in the meantime
		next.Left = time.Duration(float64(next.Behind) / (next.SpeedUp - 1))
	}
	if measured {
		p.since, p.from, p.events, p.measured = now, at, 0, true
	}
	return measured
}

// caughtUp records that there is nothing more to read for now, up to at; not above 0: that
// time is not known.
func (p *progressMeter) caughtUp(at int64) {
	p.metrics.behind(p.source, 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress.Behind, p.progress.Left = 0, 0
	if at > 0 {
		p.progress.At = time.UnixMilli(at)
	}
}
