package sinks

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// Options say how a Runner delivers.
type Options struct {
	Name  string // the sink's, under which its cursor is kept
	Open  Opener
	Batch checkpoint.Batch
	// Linger is how long a batch that is not full waits for more events.
	Linger time.Duration
	// RetryInitial and RetryMax bound the growing wait after a transient
	// failure.
	RetryInitial, RetryMax time.Duration
	// MaxAttempts is after how many transient failures an event counts as
	// rejected; 0: never.
	MaxAttempts int
	// IsolateAfter is how many attempts of a batch fail in a row before it is
	// divided, to find an event at fault; 0: 5.
	IsolateAfter int
	Probe        time.Duration // between two attempts of a halted sink
	// RateLimit is in events a second; 0: no limit.
	RateLimit float64
	Lag       Lag
	// PausedSince is when an operator paused the sink before; zero: it is not
	// paused.
	PausedSince time.Time
	// Match reports whether an event is to be sent; nil: all are. What does not match
	// counts as delivered, except dead letters, which are sent when they are requeued
	// whatever it returns. It must be safe for concurrent use.
	Match func(transform.Event) (bool, error)
	// OnMatchError is what happens to an event that Match fails for. The first failure
	// is logged, and all are counted.
	OnMatchError MatchErrorPolicy
	// Prepare returns what is sent of an event; nil: all of it. One that it fails
	// for is rejected. It must be safe for concurrent use.
	Prepare func(transform.Event) (transform.Event, error)
	// Tracer makes a span of each Send of events that carry a traceparent; nil:
	// deliveries are not traced. SpanAttributes are those of each of these spans.
	Tracer         trace.Tracer
	SpanAttributes []attribute.KeyValue

	Log     *slog.Logger
	Metrics *Metrics
}

// Journal is what a Runner needs of the state.
type Journal interface {
	checkpoint.Journal
	checkpoint.Skips
	checkpoint.Redeliveries
}

// Runner takes one sink from its cursor to the journal's end, and beside that
// delivers again what operators ask for. It has one batch of each in flight, and
// settles an event when it is acknowledged or among the dead letters.
type Runner struct {
	o       Options
	metrics sinkMetrics
	limiter *rate.Limiter // nil: none
	workers []*worker

	telling sync.Mutex
	sending chan struct{} // holds something while a worker sends: one at a time
	sink    Sink          // nil: to be opened

	mu           sync.Mutex
	paused       time.Time     // since when; zero: not
	pauseChanged chan struct{} // closed and replaced when waits are to end
}

// NewRunner returns a Runner that delivers from journal, which has been
// configured with the sink's name.
func NewRunner(journal Journal, o Options) *Runner {
	r := &Runner{
		o: o, metrics: o.Metrics.of(o.Name), paused: o.PausedSince,
		sending: make(chan struct{}, 1), pauseChanged: make(chan struct{}),
	}
	taken := preparer{prepare: o.Prepare}
	if o.Match != nil {
		taken.matcher = &matcher{match: o.Match, policy: o.OnMatchError, metrics: r.metrics, log: o.Log}
	}
	if o.IsolateAfter == 0 {
		r.o.IsolateAfter = 5
	}
	if o.RateLimit > 0 {
		burst := max(1, int(o.RateLimit))
		r.limiter = rate.NewLimiter(rate.Limit(o.RateLimit), burst)
		if r.o.Batch.MaxEvents == 0 || r.o.Batch.MaxEvents > burst {
			r.o.Batch.MaxEvents = burst
		}
	}
	r.workers = []*worker{
		newWorker(r, newJournalQueue(journal, &r.o, taken), o.Log),
		newWorker(r, &redeliveryQueue{journal: journal, o: &r.o, preparer: taken}, o.Log.With("redelivery", true)),
	}
	r.tell()
	return r
}

// Run delivers until ctx ends. A Send that is in flight then may go on until late
// ends, and what it acknowledged is committed before Run returns.
func (r *Runner) Run(ctx, late context.Context) {
	defer r.reopen()

	var running sync.WaitGroup
	for _, l := range r.workers {
		running.Go(func() { l.run(ctx, late) })
	}
	running.Wait()
}

// Status is how the sink is doing: paused, or as its journal or its redeliveries
// do, whichever is worse. It is safe for concurrent use.
func (r *Runner) Status() Status {
	r.mu.Lock()
	paused := r.paused
	r.mu.Unlock()
	delivered := counted(r.metrics.delivered)
	if !paused.IsZero() {
		return Status{Sink: r.o.Name, State: StatePaused, Since: paused, Error: "paused by an operator, until it is resumed", Delivered: delivered}
	}
	var worst Status
	for _, l := range r.workers {
		l.mu.Lock()
		if s := l.status; worst.Sink == "" || s.State.Severity() > worst.State.Severity() {
			worst = s
		}
		l.mu.Unlock()
	}
	worst.Delivered = delivered
	return worst
}

// Pause stops delivery behind what is in flight, until Resume. It is safe for
// concurrent use.
func (r *Runner) Pause() { r.setPaused(time.Now()) }

// Resume ends a pause, and tries at once what was to be tried later. It is safe
// for concurrent use.
func (r *Runner) Resume() { r.setPaused(time.Time{}) }

func (r *Runner) setPaused(paused time.Time) {
	r.mu.Lock()
	if r.paused.IsZero() || paused.IsZero() {
		r.paused = paused
	}
	close(r.pauseChanged)
	r.pauseChanged = make(chan struct{})
	r.mu.Unlock()
	r.tell()
}

// tell brings the metric of the state up to date.
func (r *Runner) tell() {
	r.telling.Lock() // the last to set it has looked last
	defer r.telling.Unlock()
	r.metrics.entered(r.Status().State)
}

// pausedState reports whether the sink is paused. The channel is closed when that may
// have changed, and when waits are to end.
func (r *Runner) pausedState() (paused bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.paused.IsZero(), r.pauseChanged
}

// send sends events in one call, the attempt-th for their batch.
func (r *Runner) send(ctx context.Context, events []transform.Event, attempt int) error {
	if r.limiter != nil {
		for left := len(events); left > 0; left -= r.limiter.Burst() {
			if err := r.limiter.WaitN(ctx, min(left, r.limiter.Burst())); err != nil {
				return fmt.Errorf("wait for the rate limit: %w", err)
			}
		}
	}
	select {
	case r.sending <- struct{}{}:
		defer func() { <-r.sending }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for the worker that sends: %w", err)
	}
	ctx, span := r.startSpan(ctx, events, attempt)
	err := r.hand(ctx, events)
	endSpan(span, len(events), err)
	return err
}

// hand gives events to the sink, which it opens where that is to be done. sending is
// held.
func (r *Runner) hand(ctx context.Context, events []transform.Event) error {
	if r.sink == nil {
		sink, err := r.o.Open()
		if err != nil {
			return &Error{Class: Halted, Err: fmt.Errorf("open: %w", err)}
		}
		r.sink = sink
	}
	start := time.Now()
	err := r.sink.Send(ctx, events)
	r.metrics.send.Observe(time.Since(start).Seconds())
	return err
}

// reopen closes the sink, so that the next send opens it again.
func (r *Runner) reopen() {
	r.sending <- struct{}{}
	defer func() { <-r.sending }()
	if r.sink == nil {
		return
	}
	if err := r.sink.Close(); err != nil {
		r.o.Log.Warn("sink did not close cleanly", "error", err)
	}
	r.sink = nil
}
