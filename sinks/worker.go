package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"ndrbridge/checkpoint"
)

// eventQueue is what a worker delivers: the journal behind a cursor, or what is to be
// delivered again.
type eventQueue interface {
	// begin reads where the queue stands.
	begin(ctx context.Context) error
	// next waits for events and returns them.
	next(ctx context.Context) (*deliveryBatch, error)
	// extend adds some of the events behind a batch to it, if there are any.
	extend(ctx context.Context, b *deliveryBatch) error
	// wait returns when there are events behind a batch, or ctx ends.
	wait(ctx context.Context, b *deliveryBatch)
	// commit takes the first n records of a batch out of the queue, together with
	// dead letters. checkpoint.ErrFenced: it stands elsewhere.
	commit(ctx context.Context, b *deliveryBatch, n int, deadLetters []checkpoint.DeadLetter) error
	// skip leaves behind what the sink's lag policy gives up, a batch in flight
	// too, of which settle first settles what is done. It reports whether there was
	// something.
	skip(ctx context.Context, settle func() error) (bool, error)
}

// worker takes a queue to its sink, one batch at a time.
type worker struct {
	r     *Runner
	queue eventQueue
	log   *slog.Logger
	retry *backoff.ExponentialBackOff

	rejections int            // in a row, without an event that was taken
	delivered  int            // events that were taken
	batch      *deliveryBatch // in flight; nil: none
	skipped    bool           // the queue stands behind the batch in flight

	mu     sync.Mutex
	status Status
}

func newWorker(r *Runner, q eventQueue, log *slog.Logger) *worker {
	return &worker{
		r: r, queue: q, log: log,
		retry: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(r.o.RetryInitial),
			backoff.WithMaxInterval(r.o.RetryMax),
			backoff.WithMaxElapsedTime(0), // never gives up
		),
		status: Status{Sink: r.o.Name, State: StateRunning, Since: time.Now()},
	}
}

// run delivers until ctx ends. Sends go on under late.
func (l *worker) run(ctx, late context.Context) {
	for begun := false; ctx.Err() == nil; {
		if l.skipped {
			begun, l.skipped = false, false
		}
		if !l.waitWhilePaused(ctx) {
			continue
		}
		if !begun {
			if err := l.queue.begin(ctx); err != nil {
				l.pause(ctx, StateRetrying, fmt.Errorf("read the cursor: %w", err), l.retry.NextBackOff(), nil)
				continue
			}
			begun = true
			l.resume()
		}
		if l.checkLag(ctx); l.skipped {
			continue
		}
		b, err := l.queue.next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.pause(ctx, StateRetrying, fmt.Errorf("read the journal: %w", err), l.retry.NextBackOff(), nil)
			}
			continue
		}
		l.batch = b
		if err := l.deliver(ctx, late, b); errors.Is(err, checkpoint.ErrFenced) {
			begun = false // somebody moved the cursor: go on from there
		}
		l.batch = nil
	}
}

// waitWhilePaused waits while the sink is paused, and reports whether to go on: not when
// ctx has ended, or the batch in flight was skipped.
func (l *worker) waitWhilePaused(ctx context.Context) bool {
	for ctx.Err() == nil && !l.skipped {
		paused, steered := l.r.pausedState()
		if !paused {
			return true
		}
		l.wait(ctx, steered)
	}
	return false
}

// commit takes the leading records of a batch that are done out of the queue and
// off the batch. It tries until the store has it or the batch is skipped, or once
// where ctx has ended: the events have been delivered, and would be once more.
func (l *worker) commit(ctx context.Context, b *deliveryBatch, whole bool) error {
	for failed := false; !l.skipped; failed = true {
		// What took until late ended is acknowledged all the same.
		err := l.commitOnce(context.WithoutCancel(ctx), b, whole)
		switch {
		case err == nil:
			if failed {
				l.resume()
			}
			return nil
		case errors.Is(err, checkpoint.ErrFenced), ctx.Err() != nil:
			l.log.Error("events were delivered but their cursor was not moved; they will come again", "error", err)
			return err
		case errors.Is(err, checkpoint.ErrDeadFull):
			err = fmt.Errorf("%w: drop or requeue some of them, or raise dead_letters.max_bytes", err)
			l.pause(ctx, StateHalted, err, l.r.o.Probe, nil)
		default:
			l.pause(ctx, StateRetrying, err, l.retry.NextBackOff(), nil)
		}
	}
	return nil
}

// commitOnce makes one attempt to settle. What lies in front of dead letters that have
// no space is settled without them.
func (l *worker) commitOnce(ctx context.Context, b *deliveryBatch, whole bool) error {
	n, deadLetters := b.completed(time.Now(), whole)
	if n == 0 {
		return nil
	}
	full := l.queue.commit(ctx, b, n, deadLetters)
	if errors.Is(full, checkpoint.ErrDeadFull) {
		if n, deadLetters = b.first(n), nil; n == 0 {
			return fmt.Errorf("move the cursor: %w", full)
		}
		if err := l.queue.commit(ctx, b, n, nil); err != nil {
			return fmt.Errorf("move the cursor: %w", err)
		}
	} else if full != nil {
		return fmt.Errorf("move the cursor: %w", full)
	}
	b.cut(n)
	for _, d := range deadLetters {
		l.r.metrics.dead.Inc()
		l.log.Warn("event rejected; it is kept among the dead letters", "key", d.Key, "error", d.Reason)
	}
	if full != nil {
		return fmt.Errorf("move the cursor: %w", full)
	}
	return nil
}

// pause tells a failure and waits, or until ctx ends, the runner is steered, or
// the batch in flight is skipped. Where b is not nil and waits for events behind
// it, these end the wait, too.
func (l *worker) pause(ctx context.Context, state State, err error, wait time.Duration, b *deliveryBatch) {
	_, steered := l.r.pausedState()
	if l.enter(state, err.Error()) {
		level := slog.LevelWarn
		if state == StateHalted {
			level = slog.LevelError
		}
		l.log.Log(ctx, level, "sink is "+string(state)+"; its events are kept", "error", err, "next_attempt", wait)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if b != nil && b.waits {
		var waiting sync.WaitGroup
		defer waiting.Wait()
		waiting.Go(func() {
			l.queue.wait(ctx, b)
			cancel()
		})
		defer cancel()
	}
	l.wait(ctx, steered)
}

// wait waits until ctx ends, the runner is steered, or the batch in flight is
// skipped.
func (l *worker) wait(ctx context.Context, steered <-chan struct{}) {
	for l.checkLag(ctx); !l.skipped; {
		select {
		case <-ctx.Done():
			return
		case <-steered:
			return
		case <-time.After(lagEvery):
			l.checkLag(ctx)
		}
	}
}

// checkLag applies the lag policy. A failure is told and no more: it is applied
// again before long.
func (l *worker) checkLag(ctx context.Context) {
	skipped, err := l.queue.skip(ctx, func() error {
		if l.batch == nil {
			return nil
		}
		return l.commitOnce(ctx, l.batch, true)
	})
	switch {
	case skipped:
		l.skipped = true
		l.log.Warn("the sink is too far behind; the oldest of its events are skipped, as its lag policy says")
	case err != nil && ctx.Err() == nil:
		l.log.Warn("the lag policy could not be applied; it is tried again", "error", err)
	}
}

// resume ends a state of failure.
func (l *worker) resume() {
	l.retry.Reset()
	if l.enter(StateRunning, "") {
		l.log.Info("sink delivers again")
	}
}

// enter sets the state and reports whether it is news.
func (l *worker) enter(state State, text string) bool {
	l.mu.Lock()
	news := l.status.State != state || l.status.Error != text
	if l.status.State != state {
		l.status.State, l.status.Since = state, time.Now()
	}
	l.status.Error = text
	l.mu.Unlock()
	if news {
		l.r.tell()
	}
	return news
}
