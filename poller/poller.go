// Package poller reads an appliance's streams into the journal: one Source for each
// stream, and a Poller that polls it.
package poller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
)

// Source reads one stream. A Poller calls Poll from one goroutine.
type Source interface {
	// Source returns the stream's name.
	Source() checkpoint.Source
	// Poll reads and commits everything new. A failed poll loses nothing: the next one
	// continues from the committed position.
	Poll(ctx context.Context) (Next, error)
	// Progress returns how far the stream was read; ok is false before anything was read. It
	// is safe for concurrent use.
	Progress() (p Progress, ok bool)
}

// Store is the part of the state that sources use. *checkpoint.Store implements it, and
// documents the methods.
type Store interface {
	Position(ctx context.Context, source checkpoint.Source) ([]byte, error)
	Recall(ctx context.Context, source checkpoint.Source, keys []string) ([][]byte, error)
	Commit(ctx context.Context, c checkpoint.Commit) error
}

// FollowUpStore is the part of the state that the sources of follow-ups use.
type FollowUpStore interface {
	Store
	Remembered(ctx context.Context, source checkpoint.Source, after string, limit int) ([]checkpoint.Entry, error)
}

// rememberedChunk is how many remembered entries are read, recalled or reported at a time.
const rememberedChunk = 500

// eachRemembered calls do with what a source remembers, some entries at a time.
func eachRemembered(ctx context.Context, store FollowUpStore, source checkpoint.Source, do func([]checkpoint.Entry) error) error {
	for after := ""; ; {
		entries, err := store.Remembered(ctx, source, after, rememberedChunk)
		if err != nil {
			return fmt.Errorf("read what is remembered of %s: %w", source, err)
		}
		if len(entries) == 0 {
			return nil
		}
		if err := do(entries); err != nil {
			return err
		}
		after = entries[len(entries)-1].Key
	}
}

// Next is when a source should be polled again.
type Next int

const (
	Idle Next = iota // after the interval: there is nothing more to read now
	Soon             // before long: a slow task is under way
	Now              // at once: there is more to read
)

// Options configures a Poller.
type Options struct {
	Interval     time.Duration // between two polls of an idle stream
	RetryInitial time.Duration // after the first of several failed polls
	RetryMax     time.Duration // the longest wait after a failed poll
	AuthRetry    time.Duration // after a poll whose key was rejected
	// Lease is that of the state's owner; nil: it never ends. A poll without it, or during
	// which it ends, does not count as a failure: nothing is wrong with the appliance.
	Lease *lease.Lease
	// Optional means that the appliance may not have what the source reads, or may not show it
	// to this key: after an answer 403 or 404 the source is off, and polled again once an hour.
	Optional bool
	// Yield reports that something else comes first, for which polls wait; nil: nothing does.
	Yield func() bool
	// LastAnswer is when the appliance last answered before the Poller was made; zero: not known.
	// It is the basis of the lag if polls fail from the start.
	LastAnswer time.Time
	// Watch receives the result of each poll; nil: nothing does.
	Watch   *Watch
	Log     *slog.Logger
	Metrics *Metrics
}

// Status is the state of a stream.
type Status struct {
	Source checkpoint.Source
	// LastSuccess is when a poll last succeeded; zero if none has.
	LastSuccess time.Time
	// Failures counts the failed polls since then, and Error describes the last one.
	Failures int
	Error    string
	Cause    string // Error in a few words, as failure.CauseOf returns it
	// NextAttempt is when the stream is polled again after a failure; zero after a success.
	NextAttempt time.Time
	// Off is set while an optional source is off, since the appliance refuses what it reads.
	Off bool
	// Events counts the events committed to the journal. The count continues that of an
	// earlier Poller of the stream with the same Metrics.
	Events uint64
	// Skipped counts the detections that got no evidence, likewise.
	Skipped uint64
}

// Poller polls a source until it is stopped.
type Poller struct {
	source Source
	o      Options
	now    chan struct{} // ends the wait for the next poll

	mu     sync.Mutex
	status Status
	class  string             // of the last failure
	events prometheus.Counter // nil before Run
}

// New returns a Poller of source.
func New(source Source, o Options) *Poller {
	return &Poller{source: source, o: o, now: make(chan struct{}, 1), status: Status{Source: source.Source()}}
}

// PollNow ends the wait for the next poll, unless the appliance asked for it. Calls during a poll
// cause one more. It is safe for concurrent use.
func (p *Poller) PollNow() {
	select {
	case p.now <- struct{}{}:
	default: // the poll that was asked for has not begun
	}
}

// Status returns the stream's state. It is safe for concurrent use.
func (p *Poller) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.status
	if p.events != nil {
		status.Events, status.Skipped = counted(p.events), p.o.Metrics.skippedOf(status.Source)
	}
	if err := p.o.Lease.Check(); err != nil {
		status.Error, status.Cause = err.Error(), ""
	}
	return status
}

// Progress returns how far the stream was read. Behind grows with the time since that was
// known while polls fail, or if the next is overdue. If nothing was read yet and polls fail,
// only Behind is set: to the time since Options.LastAnswer. ok is false if neither is known.
func (p *Poller) Progress() (progress Progress, ok bool) {
	const overdue = time.Minute // beyond the interval and its jitter
	progress, ok = p.source.Progress()
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := time.Since(progress.Known); ok && (p.status.Failures > 0 || since > p.o.Interval+p.o.Interval/10+overdue) {
		progress.Behind += since
	}
	if !ok && p.status.Failures > 0 && !p.o.LastAnswer.IsZero() {
		return Progress{Behind: time.Since(p.o.LastAnswer)}, true
	}
	return progress, ok
}

// CatchingUp reports whether a source is reading a backlog: it is behind, and has read on a short
// while ago.
func CatchingUp(source Source) bool {
	const behind, lately = time.Minute, time.Minute
	p, ok := source.Progress()
	return ok && p.Behind > behind && time.Since(p.Known) < lately
}

// yieldPause is the time between two calls of Options.Yield while polls wait.
const yieldPause = time.Second

// soon is the longest wait before polling a source that returned Soon.
const soon = 5 * time.Second

// Run polls until ctx is done.
func (p *Poller) Run(ctx context.Context) {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(p.o.RetryInitial),
		backoff.WithMaxInterval(p.o.RetryMax),
		backoff.WithMaxElapsedTime(0),
	)
	p.mu.Lock()
	p.events = p.o.Metrics.begin(p.status.Source)
	p.mu.Unlock()
	for {
		for p.o.Yield != nil && p.o.Yield() {
			select {
			case <-time.After(yieldPause):
			case <-ctx.Done():
				return
			}
		}
		var next Next
		err := p.o.Lease.Do(ctx, func(ctx context.Context) (err error) {
			next, err = p.source.Poll(ctx)
			return err
		})
		if ctx.Err() != nil {
			return
		}
		noLease := errors.Is(err, lease.ErrExpired)
		if !noLease {
			p.record(err)
		}
		var wait time.Duration
		now := p.now
		switch e, _ := errors.AsType[*appliance.Error](err); {
		case noLease:
			wait = p.o.RetryInitial
		case err == nil:
			retry.Reset()
			wait = p.o.Interval
			switch next {
			case Soon:
				wait = min(wait, soon)
			case Now:
				wait = 0
			}
			// Jitter of a tenth spreads the polls of many bridges.
			wait += time.Duration((rand.Float64() - 0.5) / 5 * float64(wait))
		case p.isOff(err):
			wait = offFor
		case e != nil && e.Refused():
			wait = p.o.AuthRetry
		case e != nil:
			wait = max(retry.NextBackOff(), e.RetryAfter)
			if e.Throttled() {
				now = nil
			}
		default:
			wait = retry.NextBackOff()
		}
		if err != nil {
			p.mu.Lock()
			p.status.NextAttempt = time.Now().Add(wait)
			p.mu.Unlock()
		}
		select {
		case <-time.After(wait):
		case <-now:
		case <-ctx.Done():
			return
		}
	}
}

// offFor is the wait before an optional source that is off is polled again.
const offFor = time.Hour

// errOff is wrapped by the error of a poll of an optional source whose part the appliance does not
// have, or has switched off, although it answers neither 403 nor 404.
var errOff = errors.New("the appliance does not offer this")

// isOff reports whether the error of a poll, which may be nil, means that an optional source is off.
func (p *Poller) isOff(err error) bool {
	e, ok := errors.AsType[*appliance.Error](err)
	return p.o.Optional && ok && (isRefusal(e) || errors.Is(err, errOff))
}

// isRefusal reports whether an answer means that the appliance does not have what was requested,
// or does not show it to this key.
func isRefusal(e *appliance.Error) bool {
	return e.Status == http.StatusForbidden || e.Status == http.StatusNotFound
}

// record records the result of a poll, and logs what it changed: not every failure of a
// long outage.
func (p *Poller) record(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, class := time.Now(), classOf(err)
	s := &p.status
	p.o.Metrics.polled(s.Source, class, now)
	p.o.Watch.polled(s.Source, err)
	wasOff := s.Off
	s.Off = p.isOff(err)
	p.o.Metrics.setOff(s.Source, s.Off)
	if err == nil {
		if s.Failures > 0 {
			p.o.Log.Info("polls succeed again", "after_failures", s.Failures)
		}
		*s, p.class = Status{Source: s.Source, LastSuccess: now, Events: s.Events}, class
		return
	}
	// A long outage is logged at its beginning, and when the class of failure changes.
	const beginning = 3
	level, text := slog.LevelDebug, err.Error()
	if s.Failures++; class != p.class || s.Failures <= beginning && text != s.Error {
		level = slog.LevelWarn
	}
	switch {
	case s.Off && !wasOff:
		p.o.Log.Warn("the appliance refuses what this stream reads, which is off until it is asked again; the other streams go on",
			"again_in", offFor, "error", err)
	case !s.Off:
		p.o.Log.Log(context.Background(), level, "poll failed; retrying", "failures", s.Failures, "error", err)
	}
	s.Error, s.Cause, p.class = text, failure.CauseOf(err), class
}

// classOf returns the class under which a poll is counted.
func classOf(err error) string {
	e, ok := errors.AsType[*appliance.Error](err)
	switch {
	case err == nil:
		return "ok"
	case ok && e.Refused():
		return "refused"
	case ok && e.Throttled():
		return "throttled"
	}
	return "failed"
}

// Progress is how far a stream has come.
type Progress struct {
	// At is the appliance's time up to which everything was read.
	At time.Time
	// Behind is how much can be read beyond At; 0 once it was read to its end.
	Behind time.Duration
	// EventsPerSecond is how fast it is read; 0 if that is not known yet.
	EventsPerSecond float64
	// Known is when this was known, by the bridge's clock.
	Known time.Time
	// SpeedUp is how many seconds of the appliance's time are read per second.
	SpeedUp float64
	// Left is how long it takes until there is nothing more to read, at this speed;
	// 0 if that is not known, or if there is nothing left.
	Left time.Duration
}

// progressMeter keeps a source's progress, and measures how fast the source reads, over
// one interval after another.
type progressMeter struct {
	now func() time.Time

	mu       sync.Mutex
	progress Progress

	// The interval being measured. Only the source uses these fields.
	since    time.Time // zero: it begins with the next call of reached
	from     int64     // up to where the stream was read at its beginning
	events   int       // committed since then
	measured bool      // an interval was measured, and is reported until the next one is
}

// measureFor is the length of an interval.
const measureFor = 30 * time.Second

// current returns the source's progress. It is safe for concurrent use.
func (p *progressMeter) current() (progress Progress, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress, !p.progress.At.IsZero()
}

// begin starts a new measurement.
func (p *progressMeter) begin() { p.since, p.measured = time.Time{}, false }

// reached records up to where the stream was read, and how much there is after that, both
// in milliseconds of the appliance's time. It reports whether an interval has ended.
func (p *progressMeter) reached(at, behind int64) (measured bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, next := p.now(), &p.progress
	next.Known = now
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress.Behind, p.progress.Left, p.progress.Known = 0, 0, p.now()
	if at > 0 {
		p.progress.At = time.UnixMilli(at)
	}
}
