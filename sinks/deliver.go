package sinks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
)

// delivery delivers one batch. Its methods implement the states of deliveryState.
type delivery struct {
	w      *worker
	b      *deliveryBatch
	probed int   // events of b that probes sent so far; decides which one the next sends
	pause  pause // of retrying and halted
	full   error // why some events could not be parked; nil: all could
}

// pause is a wait between two passes.
type pause struct {
	err       error // the reason
	duration  time.Duration
	untilMore bool // it also ends when an event follows the batch that may be sent ahead of it
}

// deliver sends b until every event is acknowledged, dead-lettered or parked, or ctx is
// done. Completed events ahead of a failing one are committed before each pass. It returns
// an error if committing failed, and errSkipped if the lag policy skipped the batch.
func (w *worker) deliver(ctx, late context.Context, b *deliveryBatch) error {
	w.rejections.Distrust()
	d := delivery{w: w, b: b}
	for state := committing; ; {
		var o outcome
		var err error
		switch state {
		case committing:
			o, err = d.commit(ctx)
		case sending:
			o = d.send(ctx, late)
		case retrying:
			o = d.retry(ctx)
		case halted:
			o = d.halt(ctx)
		case completed:
			w.recovered()
			return nil
		case skipped:
			return errSkipped
		case stopped:
			if err = w.commit(ctx, b, true); errors.Is(err, checkpoint.ErrParkedFull) {
				err = nil // events without space are sent again
			}
			return err
		}
		if err != nil {
			return err
		}
		state = state.next(o)
	}
}

// commit implements committing.
func (d *delivery) commit(ctx context.Context) (outcome, error) {
	if err := d.w.waitWhilePaused(ctx); errors.Is(err, errSkipped) {
		return outcomeSkipped, nil
	} else if err != nil {
		return outcomeInterrupted, nil
	}
	switch err := d.w.commit(ctx, d.b, false); {
	case errors.Is(err, errSkipped):
		return outcomeSkipped, nil
	case errors.Is(err, checkpoint.ErrParkedFull):
		d.b.unpark()
		d.full = err
		d.pause = pause{err: err, duration: d.w.r.o.Probe}
		return outcomeNoSpace, nil
	case err != nil:
		return "", err
	case len(d.b.entries) == 0:
		return outcomeAllDone, nil
	}
	return outcomePending, nil
}

// send implements sending.
func (d *delivery) send(ctx, late context.Context) outcome {
	p := newPass(d, ctx, late)
	err := p.run()
	left := p.conclude(time.Now(), err != nil)
	return d.end(ctx, late, p, err, left)
}

// end selects the outcome of a pass that was ended by err, and sets the pause that follows
// it. left reports whether events are pending.
func (d *delivery) end(ctx, late context.Context, p *pass, err error, left bool) outcome {
	w := d.w
	atFault := w.rejections.TargetAtFault()
	if atFault {
		d.b.undoDeadLetters()
	}
	if p.progress {
		w.retry.Reset() // the next failure is that of another event
	}
	if hadNoLease(err) && late.Err() == nil {
		d.pause = pause{err: lease.ErrExpired, duration: w.r.o.RetryInitial}
		return outcomeNoLease
	}
	if atFault {
		err = failure.Errorf(failure.Halted, "%d events in a row were rejected and none accepted: the sink, not the data, is probably misconfigured: %w", w.rejections.InARow(), err)
	}
	if late.Err() != nil || err != nil && errors.Is(err, ctx.Err()) {
		return outcomeInterrupted
	}
	if err == nil && !left {
		w.recovered()
		return outcomeSent
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
		d.pause = pause{err: err, duration: w.r.o.Probe}
		return outcomeHalts
	case class == failure.Throttled:
		d.pause = pause{err: err, duration: max(w.retry.NextBackOff(), retryAfter)}
		return outcomeThrottled
	case p.progress: // the target is up
		d.pause = pause{err: err, duration: max(w.r.o.RetryInitial, retryAfter)}
		return outcomeSomeLeft
	case errors.Is(err, errPartDown): // every event waits for such a part
		d.pause = pause{err: err, duration: retryAfter}
	default:
		if len(p.tried) > 0 { // or the target as a whole is not available
			w.fruitless++
			w.triedInVain += len(p.tried)
		}
		d.pause = pause{err: err, duration: max(w.retry.NextBackOff(), retryAfter)}
	}
	d.pause.untilMore = p.nothingBehind
	return outcomeNoneTaken
}

// retry implements retrying.
func (d *delivery) retry(ctx context.Context) outcome {
	if d.pause.untilMore {
		var waiting sync.WaitGroup
		defer waiting.Wait()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		waiting.Go(func() {
			d.w.scout.wait(ctx)
			cancel()
		})
	}
	return d.wait(ctx, StateRetrying)
}

// halt implements halted.
func (d *delivery) halt(ctx context.Context) outcome {
	d.w.r.reopen()
	return d.wait(ctx, StateHalted)
}

// wait makes the pause after a pass.
func (d *delivery) wait(ctx context.Context, state State) outcome {
	if d.w.backOff(ctx, state, d.pause.err, d.pause.duration) != nil {
		return outcomeSkipped
	}
	return outcomeWaited
}
