package sinks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
)

// delivery is the delivery of one batch.
type delivery struct {
	w      *worker
	b      *deliveryBatch
	probed int   // events of b that probes sent so far; decides which one the next sends
	full   error // why some events could not be parked; nil: all could
}

// pause is a wait between two passes; the zero pause is none.
type pause struct {
	err      error // the reason
	state    State // of the sink: StateRetrying or StateHalted
	duration time.Duration
}

// errInterrupted ends a delivery because ctx is done.
var errInterrupted = errors.New("interrupted")

// deliver sends b until every event is acknowledged, dead-lettered or parked, or ctx is
// done. Completed events ahead of a failing one are committed before each pass. It returns
// an error if committing failed, and errSkipped if the lag policy skipped the batch.
func (w *worker) deliver(ctx, late context.Context, b *deliveryBatch) error {
	w.rejections.Distrust()
	d := delivery{w: w, b: b}
	for len(b.entries) > 0 {
		wait, err := d.commit(ctx)
		if err == nil && wait.err == nil && len(b.entries) > 0 {
			wait, err = d.send(ctx, late)
		}
		if err == nil && wait.err != nil {
			err = d.wait(ctx, wait)
		}
		if errors.Is(err, errInterrupted) {
			if err = w.commit(ctx, b, true); errors.Is(err, checkpoint.ErrParkedFull) {
				return nil // events without space are sent again
			}
			return err
		}
		if err != nil {
			return err
		}
	}
	w.recovered()
	return nil
}

// commit commits the completed events, once the sink is not paused. It returns the pause to make
// if there is no space for parked events among them.
func (d *delivery) commit(ctx context.Context) (pause, error) {
	if err := d.w.waitWhilePaused(ctx); errors.Is(err, errSkipped) {
		return pause{}, err
	} else if err != nil {
		return pause{}, errInterrupted
	}
	err := d.w.commit(ctx, d.b, false)
	if errors.Is(err, checkpoint.ErrParkedFull) {
		d.b.unpark()
		d.full = err
		return pause{err, StateRetrying, d.w.r.o.Probe}, nil
	}
	return pause{}, err
}

// send makes one pass over the pending events, and returns the pause that follows it.
func (d *delivery) send(ctx, late context.Context) (pause, error) {
	p := newPass(d, ctx, late)
	err := p.run()
	left := p.conclude(time.Now(), err != nil)
	return d.end(ctx, late, p, err, left)
}

// end returns the pause that follows a pass that was ended by err. left reports whether events
// are pending.
func (d *delivery) end(ctx, late context.Context, p *pass, err error, left bool) (pause, error) {
	w := d.w
	atFault := w.rejections.TargetAtFault()
	if atFault {
		d.b.undoDeadLetters()
	}
	if p.progress {
		w.retry.Reset() // the next failure is that of another event
	}
	if hadNoLease(err) && late.Err() == nil {
		return pause{lease.ErrExpired, StateRetrying, w.r.o.RetryInitial}, nil
	}
	if atFault {
		err = failure.Errorf(failure.Halted, "%d events in a row were rejected and none accepted: the sink, not the data, is probably misconfigured: %w", w.rejections.InARow(), err)
	}
	if late.Err() != nil || err != nil && errors.Is(err, ctx.Err()) {
		return pause{}, errInterrupted
	}
	if err == nil && !left {
		w.recovered()
		return pause{}, nil
	}
	if err == nil {
		err = cmp.Or(p.last, failure.ErrNotTried)
	}
	class, retryAfter := failure.ClassOf(err)
	if d.full != nil && class == failure.Transient {
		err = fmt.Errorf("%w; %w", d.full, err)
	}
	w.r.metrics.retries.WithLabelValues(string(class)).Inc()
	switch {
	case class == failure.Halted:
		return pause{err, StateHalted, w.r.o.Probe}, nil
	case class != failure.Throttled && p.progress: // the target is up
		return pause{err, StateRetrying, max(w.r.o.RetryInitial, retryAfter)}, nil
	case class != failure.Throttled && errors.Is(err, errPartDown): // every event waits for such a part
		return pause{err, StateRetrying, retryAfter}, nil
	case class != failure.Throttled && len(p.tried) > 0: // or the target as a whole is not available
		w.fruitless++
		w.triedInVain += len(p.tried)
	}
	return pause{err, StateRetrying, max(w.retry.NextBackOff(), retryAfter)}, nil
}

// wait makes a pause between two passes.
func (d *delivery) wait(ctx context.Context, p pause) error {
	if p.state == StateHalted {
		d.w.r.reopen()
	}
	return d.w.backOff(ctx, p.state, p.err, p.duration)
}
