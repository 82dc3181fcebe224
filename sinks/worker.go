package sinks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/poison"
)

// worker delivers the events of one queue to the runner's sink, one batch at a
// time.
type worker struct {
	r     *Runner
	queue eventQueue
	lag   *lagPolicy // nil: none
	log   *slog.Logger
	retry *backoff.ExponentialBackOff

	rejections poison.Rejections // trusted from an accepted probe to the end of the batch
	scout      *scout
	// fruitless counts the passes in a row that tried events, of which the target accepted
	// none; triedInVain counts these events.
	fruitless, triedInVain int
	batch                  *deliveryBatch // in flight; nil: none

	mu     sync.Mutex
	status Status
}

func newWorker(r *Runner, q eventQueue, lag *lagPolicy, log *slog.Logger) *worker {
	return &worker{
		r: r, queue: q, lag: lag, log: log, scout: newScout(q, r.o.Batch),
		retry: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(r.o.RetryInitial),
			backoff.WithMaxInterval(r.o.RetryMax),
			backoff.WithMaxElapsedTime(0), // no limit
		),
		status: Status{Sink: r.o.Name, State: StateRunning, Since: time.Now()},
	}
}

// errSkipped is returned if the lag policy moved the queue past the batch in flight, if
// there is one. The queue must begin again.
var errSkipped = errors.New("the lag policy skipped events")

// run delivers until ctx is done. A Send in flight then may go on until late is
// done.
func (w *worker) run(ctx, late context.Context) {
	for lost := false; ctx.Err() == nil; {
		if w.waitWhilePaused(ctx) != nil {
			continue
		}
		if err := w.queue.begin(ctx); err != nil {
			lost = true
			_ = w.backOff(ctx, StateRetrying, fmt.Errorf("read the cursor: %w", err), w.retry.NextBackOff())
			continue
		}
		if lost { // a skip begins again too, and does not show that the target is back
			w.recovered()
		}
		// If the cursor was moved by someone else, go on from there.
		lost = errors.Is(w.deliverAll(ctx, late), checkpoint.ErrFenced)
	}
}

// deliverAll delivers batches until ctx is done or the queue must begin again.
func (w *worker) deliverAll(ctx, late context.Context) error {
	for {
		if err := w.waitWhilePaused(ctx); err != nil {
			return err
		}
		if w.checkLag(ctx) {
			return errSkipped
		}
		b, err := w.queue.next(ctx)
		switch {
		case err == nil:
			w.batch = b
			err = w.deliver(ctx, late, b)
			w.batch = nil
		case ctx.Err() == nil:
			err = w.backOff(ctx, StateRetrying, fmt.Errorf("read the journal: %w", err), w.retry.NextBackOff())
		}
		if err != nil {
			return err
		}
	}
}

// waitWhilePaused blocks while the sink is paused. It returns an error if ctx is done
// or events were skipped.
func (w *worker) waitWhilePaused(ctx context.Context) error {
	for ctx.Err() == nil {
		paused, changed := w.r.pauseState()
		if !paused {
			return nil
		}
		if err := w.wait(ctx, changed); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// commit commits the completed events at the front of b, as many as b.completed(final)
// returns, and removes them from b. It retries until it succeeds, the cursor was moved by
// someone else, b is skipped, or there is no space for the parked events among them. If ctx is
// done, it tries only once; if that fails, the events will be delivered again.
func (w *worker) commit(ctx context.Context, b *deliveryBatch, final bool) error {
	for failed := false; ; failed = true {
		// What was acknowledged after ctx was done is committed, too.
		err := w.commitOnce(context.WithoutCancel(ctx), b, final)
		switch {
		case err == nil:
			if failed {
				w.recovered()
			}
			return nil
		case errors.Is(err, checkpoint.ErrParkedFull):
			return err
		case errors.Is(err, checkpoint.ErrFenced), ctx.Err() != nil:
			w.log.Error("events were delivered but the cursor could not be moved; they will be delivered again", "error", err)
			return err
		case errors.Is(err, checkpoint.ErrDeadFull):
			err = fmt.Errorf("%w: drop or requeue some of them, or raise dead_letters.max_bytes", err)
			err = w.backOff(ctx, StateHalted, err, w.r.o.Probe)
		default:
			err = w.backOff(ctx, StateRetrying, err, w.retry.NextBackOff())
		}
		if err != nil {
			return err
		}
	}
}

// commitOnce makes one attempt to commit the completed events at the front of b. If there is
// no space for the dead letters or the parked events among them, it commits only the events
// ahead of the first one and returns an error that wraps checkpoint.ErrDeadFull or
// checkpoint.ErrParkedFull.
func (w *worker) commitOnce(ctx context.Context, b *deliveryBatch, final bool) error {
	n := b.completed(final)
	if n == 0 {
		return nil
	}
	err := w.commitFirst(ctx, b, n)
	if isFull(err) {
		n = b.beforeFirst(n, func(s entryState) bool {
			return errors.Is(err, checkpoint.ErrDeadFull) && s == entryDead || errors.Is(err, checkpoint.ErrParkedFull) && s.isParked()
		})
		if n > 0 {
			err = cmp.Or(w.commitFirst(ctx, b, n), err)
		}
	}
	if errors.Is(err, checkpoint.ErrParkedFull) {
		err = fmt.Errorf("%w: delivery waits until some are delivered or given up; raise dead_letters.max_bytes for more space", err)
	}
	return err
}

// commitFirst commits the first n entries of b.
func (w *worker) commitFirst(ctx context.Context, b *deliveryBatch, n int) error {
	dead := b.deadLetters(n, time.Now())
	if err := w.queue.commit(ctx, b, n, dead); err != nil {
		return fmt.Errorf("move the cursor: %w", err)
	}
	for _, d := range dead {
		w.r.metrics.dead.Inc()
		w.log.Warn("event rejected; it is kept among the dead letters", "key", d.Key, "error", d.Reason)
	}
	if events, reason := b.newlyParked(n); events > 0 {
		w.log.Warn("events are parked; they are delivered later, and others go on", "events", events, "error", reason)
	}
	b.removeFirst(n)
	return nil
}

// backOff sets the state, logs err if it is news, and waits for d. It returns
// early if ctx is done, the sink is paused or resumed, or events are skipped, which
// is the only error.
func (w *worker) backOff(ctx context.Context, state State, err error, d time.Duration) error {
	_, changed := w.r.pauseState()
	if w.setStatus(state, err, time.Now().Add(d)) {
		level := slog.LevelWarn
		if state == StateHalted {
			level = slog.LevelError
		}
		w.log.Log(ctx, level, "sink is "+string(state)+"; its events are kept", "error", err, "next_attempt", d)
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return w.wait(ctx, changed)
}

// wait blocks until ctx is done or changed is closed, and returns errSkipped if events
// are skipped before.
func (w *worker) wait(ctx context.Context, changed <-chan struct{}) error {
	for !w.checkLag(ctx) {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			return nil
		case <-time.After(lagCheckInterval):
		}
	}
	return errSkipped
}

// checkLag applies the lag policy and reports whether it skipped events. It only logs a
// failure: the policy is applied again after lagCheckInterval.
func (w *worker) checkLag(ctx context.Context) (skipped bool) {
	if w.lag == nil {
		return false
	}
	skipped, err := w.lag.apply(ctx, time.Now(), func() error {
		if w.batch == nil {
			return nil
		}
		err := w.commitOnce(ctx, w.batch, true)
		if errors.Is(err, checkpoint.ErrParkedFull) { // events without space may be skipped
			return nil
		}
		return err
	})
	switch {
	case skipped:
		w.log.Warn("the sink is too far behind; its oldest events are skipped according to its lag policy")
	case err != nil && ctx.Err() == nil:
		w.log.Warn("the lag policy could not be applied; it will be retried", "error", err)
	}
	return skipped
}

// recovered resets the backoff, sets StateRunning, and logs that the sink
// recovered if it had failed.
func (w *worker) recovered() {
	w.retry.Reset()
	if w.setStatus(StateRunning, nil, time.Time{}) {
		w.log.Info("sink delivers again")
	}
}

// setStatus sets the state, its error, if any, and the time of the next attempt. It reports
// whether the state or the error's text changed.
func (w *worker) setStatus(state State, err error, next time.Time) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.mu.Lock()
	changed := w.status.State != state || w.status.Error != text
	if w.status.State != state {
		w.status.State, w.status.Since = state, time.Now()
	}
	w.status.Error, w.status.Cause, w.status.NextAttempt = text, failure.CauseOf(err), next
	w.mu.Unlock()
	if changed {
		w.r.updateStateMetric()
	}
	return changed
}
