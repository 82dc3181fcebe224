package poller

import (
	"sync"
	"time"
)

// Progress is how far a stream of records has come.
type Progress struct {
	// At is the appliance's time up to which everything was read.
	At time.Time
	// Behind is how much can be read beyond At; 0 once it was read to its end.
	Behind           time.Duration
	RecordsPerSecond float64
	// SpeedUp is how many seconds of the appliance's time are read in one.
	SpeedUp float64
	// Left is how long it takes until there is nothing more to read, at this
	// speed; 0 where it cannot be told, and where it is done.
	Left time.Duration
}

// Progress tells how far the source has come; ok is false before its first
// window. It is safe for concurrent use.
func (r *Records) Progress() (p Progress, ok bool) {
	r.pace.mu.Lock()
	defer r.pace.mu.Unlock()
	return r.pace.progress, !r.pace.progress.At.IsZero()
}

// pace measures how fast a source reads, over stretches of time.
type pace struct {
	mu       sync.Mutex
	progress Progress

	// The stretch that is being measured, the source's alone.
	since   time.Time // zero: it begins with the next window
	from    int64     // where the position was
	records int
	told    bool // a stretch was measured, and holds until the next is
}

// stretch is how long is measured before it is told.
const stretch = 30 * time.Second

// backlog is how many windows there are to be read where progress is told.
const backlog = 3

func (p *pace) begin() { p.since, p.told = time.Time{}, false }

func (p *pace) add(records int) { p.records += records }

// measure takes note of where the position is, and tells how it goes while a
// backlog of more than a few windows is read.
func (r *Records) measure() {
	p, now, at := &r.pace, r.o.Now(), r.position.Until
	if p.since.IsZero() || at < p.from {
		p.since, p.from, p.records, p.told = now, at, 0, false
	}
	behind := r.behind()
	r.o.Metrics.behind(r.source, behind)

	next := p.progress
	next.At, next.Behind = time.UnixMilli(at), time.Duration(behind)*time.Millisecond
	passed := now.Sub(p.since)
	ended := passed >= stretch
	if passed > 0 && (ended || !p.told) {
		next.RecordsPerSecond = float64(p.records) / passed.Seconds()
		next.SpeedUp = float64(at-p.from) / 1000 / passed.Seconds()
	}
	next.Left = 0
	if behind > 0 && next.SpeedUp > 1 { // the present moves on meanwhile
		next.Left = time.Duration(float64(next.Behind) / (next.SpeedUp - 1))
	}
	p.mu.Lock()
	p.progress = next
	p.mu.Unlock()

	if !ended {
		return
	}
	p.since, p.from, p.records, p.told = now, at, 0, true
	if next.Behind > backlog*r.o.Window {
		r.o.Log.Info("reading a backlog", "at", next.At.UTC(), "behind", next.Behind.Round(time.Second),
			"records_per_second", int(next.RecordsPerSecond), "speed_up", int(next.SpeedUp), "left", next.Left.Round(time.Second))
	}
}

// caughtUp takes note that there is nothing more to read for now.
func (r *Records) caughtUp() {
	p := &r.pace
	r.o.Metrics.behind(r.source, 0)
	p.mu.Lock()
	p.progress.At, p.progress.Behind, p.progress.Left = time.UnixMilli(r.position.Until), 0, 0
	p.mu.Unlock()
}
