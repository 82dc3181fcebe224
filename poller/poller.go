// Package poller reads an appliance's streams into the journal: one source for
// each stream, and the Poller that keeps it going.
package poller

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
)

// Source reads one stream. A Poller calls Poll from one goroutine.
type Source interface {
	// Source names the stream.
	Source() checkpoint.Source
	// Poll reads what is new and commits it. A poll that failed has lost
	// nothing: the next goes on from what was committed.
	Poll(ctx context.Context) (Next, error)
	// Progress tells how far the stream was read; ok is false before anything was.
	// It is safe for concurrent use.
	Progress() (p Progress, ok bool)
}

// Next says when a source that was polled should be polled again.
type Next int

const (
	Idle Next = iota // after the interval: there is nothing to do but wait for what is new
	Soon             // before long: something slow is under way
	Now              // at once: there is more to read
)

// Options say when a Poller polls.
type Options struct {
	Interval     time.Duration // between two polls of an idle stream
	RetryInitial time.Duration // after the first of several failed polls
	RetryMax     time.Duration // the longest wait after a failed poll
	AuthRetry    time.Duration // after a poll whose key was refused
	// Tracer makes a span of each poll; nil: polls are not traced. The events of a poll
	// that is recorded carry its traceparent.
	Tracer trace.Tracer
	// Watch hears how each poll ended.
	Watch   *Watch
	Log     *slog.Logger
	Metrics *Metrics
}

// Status is how a stream is doing.
type Status struct {
	Source checkpoint.Source
	// LastSuccess is when a poll last succeeded; zero: none has.
	LastSuccess time.Time
	// Failures counts the failed polls since then, and Error tells the last.
	Failures int
	Error    string
	// Events counts those committed to the journal. It goes on where another Poller of
	// the stream with the same Metrics ended.
	Events uint64
}

// Poller polls a source until it is stopped.
type Poller struct {
	source Source
	o      Options

	mu     sync.Mutex
	status Status
	class  string             // of the last failure
	events prometheus.Counter // nil before Run
}

// New returns a Poller of source.
func New(source Source, o Options) *Poller {
	return &Poller{source: source, o: o, status: Status{Source: source.Source()}}
}

// Status is safe for concurrent use.
func (p *Poller) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.status
	if p.events != nil {
		status.Events = counted(p.events)
	}
	return status
}

// soon bounds the wait for a source that is to be polled before long.
const soon = 5 * time.Second

// Run polls until ctx ends.
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
		next, err := p.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		p.record(err)
		var wait time.Duration
		switch e, _ := errors.AsType[*appliance.Error](err); {
		case err == nil:
			retry.Reset()
			wait = p.o.Interval
			switch next {
			case Soon:
				wait = min(wait, soon)
			case Now:
				wait = 0
			}
			// A tenth of jitter keeps the streams of many bridges apart.
			wait += time.Duration((rand.Float64() - 0.5) / 5 * float64(wait))
		case e != nil && e.Refused():
			wait = p.o.AuthRetry
		case e != nil:
			wait = max(retry.NextBackOff(), e.RetryAfter)
		default:
			wait = retry.NextBackOff()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// record keeps how a poll ended, and tells what changed by it: not every
// failure of a long outage.
func (p *Poller) record(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, class := time.Now(), classOf(err)
	s := &p.status
	p.o.Metrics.polled(s.Source, class, now)
	p.o.Watch.polled(s.Source, err)
	if err == nil {
		if s.Failures > 0 {
			p.o.Log.Info("polls succeed again", "after_failures", s.Failures)
		}
		s.LastSuccess, s.Failures, s.Error, p.class = now, 0, "", class
		return
	}
	// A long outage is told at its beginning, and where it becomes another.
	const beginning = 3
	level, text := slog.LevelDebug, err.Error()
	if s.Failures++; class != p.class || s.Failures <= beginning && text != s.Error {
		level = slog.LevelWarn
	}
	p.o.Log.Log(context.Background(), level, "poll failed; it is tried again", "failures", s.Failures, "error", err)
	s.Error, p.class = text, class
}

// classOf is the word that a poll is counted under.
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
