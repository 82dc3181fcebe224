package sinks

import (
	"context"
	"fmt"
	"log/slog"
	"time"

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
	Probe       time.Duration // between two attempts of a halted sink
	// RateLimit is in events a second; 0: no limit.
	RateLimit float64
	// Prepare returns what is sent of an event; nil: all of it. One that it fails
	// for is rejected.
	Prepare func(transform.Event) (transform.Event, error)
	// Grace is how long a Send may go on after Run was told to stop.
	Grace   time.Duration
	Log     *slog.Logger
	Metrics *Metrics
}

// Runner takes one sink from its cursor to the journal's end. It has one batch
// in flight, and moves the cursor when every event in front of it is acknowledged
// or among the dead letters.
type Runner struct {
	o       Options
	metrics sinkMetrics
	limiter *rate.Limiter // nil: none
	lane    *lane
	sink    Sink // nil: to be opened
}

// NewRunner returns a Runner that delivers from journal, which has been
// configured with the sink's name.
func NewRunner(journal checkpoint.Journal, o Options) *Runner {
	r := &Runner{o: o, metrics: o.Metrics.of(o.Name)}
	if o.RateLimit > 0 {
		burst := max(1, int(o.RateLimit))
		r.limiter = rate.NewLimiter(rate.Limit(o.RateLimit), burst)
		if r.o.Batch.MaxEvents == 0 || r.o.Batch.MaxEvents > burst {
			r.o.Batch.MaxEvents = burst
		}
	}
	r.lane = newLane(r, &journalQueue{journal: journal, o: &r.o}, o.Log)
	return r
}

// Run delivers until ctx ends. A Send that is in flight then may go on for
// Grace, and what it acknowledged is settled before Run returns.
func (r *Runner) Run(ctx context.Context) {
	// Sends outlive ctx, by Grace at most.
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(r.o.Grace):
			cancel()
		}
	})
	defer stop()
	defer r.reopen()

	r.lane.run(ctx, late)
}

// Status is safe for concurrent use.
func (r *Runner) Status() Status {
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	return r.lane.status
}

// send sends events in one call.
func (r *Runner) send(ctx context.Context, events []transform.Event) error {
	if r.limiter != nil {
		if err := r.limiter.WaitN(ctx, min(len(events), r.limiter.Burst())); err != nil {
			return fmt.Errorf("wait for the rate limit: %w", err)
		}
	}
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

// reopen closes the sink, so that the next send opens it anew.
func (r *Runner) reopen() {
	if r.sink == nil {
		return
	}
	if err := r.sink.Close(); err != nil {
		r.o.Log.Warn("sink did not close cleanly", "error", err)
	}
	r.sink = nil
}
