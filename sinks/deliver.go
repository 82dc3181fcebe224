package sinks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ndrbridge/cluster/lease"
	"ndrbridge/internal/poison"
)

// delivery delivers one batch. Its methods implement the states of deliveryState.
type delivery struct {
	w *worker
	b *deliveryBatch

	// quarantined is set once events failed individually while others were delivered,
	// until the target is down.
	quarantined     bool
	isolation       isolationSchedule
	pass            *isolationPass // of isolating and quarantining; nil: none
	deliveredBefore uint64         // worker.delivered when the attempt began
	ranges          [][]int        // indexes of the events that the attempt has yet to send, the first ones last
	sends           int            // calls of Send so far
	probed          int            // probes so far; decides which event the next one sends
	pause           pause          // of retrying and halted
}

// pause is a wait between two attempts.
type pause struct {
	err       error // the reason
	duration  time.Duration
	untilMore bool // it also ends when events follow the batch
}

// deliver sends b until every event is acknowledged or dead-lettered, or ctx is done.
// Completed events ahead of a failing one are committed before each retry. It returns
// an error if committing failed, and errSkipped if the lag policy skipped the batch.
func (w *worker) deliver(ctx, late context.Context, b *deliveryBatch) error {
	w.rejections.Distrust()
	d := delivery{w: w, b: b, isolation: isolationSchedule{after: w.r.o.IsolateAfter, at: w.r.o.IsolateAfter}}
	for state := committing; ; {
		var o outcome
		var err error
		switch state {
		case committing:
			o, err = d.commit(ctx)
		case sending, bisecting:
			o = d.send(ctx, late)
		case isolating, quarantining:
			o = d.isolate(ctx, late)
		case probing:
			o = d.probe(ctx, late)
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
			return w.commit(ctx, b, true)
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
	if err := d.w.commit(ctx, d.b, false); errors.Is(err, errSkipped) {
		return outcomeSkipped, nil
	} else if err != nil {
		return "", err
	}
	left := d.b.pending()
	d.ranges, d.deliveredBefore = append(d.ranges[:0], left), d.w.delivered
	switch {
	case len(left) == 0:
		return outcomeAllDone, nil
	case d.w.rejections.TargetAtFault():
		return outcomeRejectsEverything, nil
	case d.quarantined:
		return outcomeQuarantined, nil
	case d.isolation.due(len(left)):
		return outcomeKeepsFailing, nil
	}
	return outcomePending, nil
}

// retry implements retrying.
func (d *delivery) retry(ctx context.Context) outcome {
	if d.pause.untilMore {
		var waiting sync.WaitGroup
		defer waiting.Wait()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		after := d.b.last().Seq // read now: the lag policy may shorten the batch during the wait
		waiting.Go(func() {
			d.w.queue.waitForMore(ctx, after)
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

// wait makes the pause after a failed attempt.
func (d *delivery) wait(ctx context.Context, state State) outcome {
	if d.w.backOff(ctx, state, d.pause.err, d.pause.duration) != nil {
		return outcomeSkipped
	}
	return outcomeWaited
}

// end ends an attempt that returned err, and sets the pause that follows it.
func (d *delivery) end(ctx, late context.Context, err error) outcome {
	w := d.w
	progress := w.delivered > d.deliveredBefore
	if progress {
		d.isolation.reset()
	}
	if err == nil {
		w.recovered()
		return outcomeSent
	}
	atFault := w.rejections.TargetAtFault()
	if atFault {
		d.b.undoDeadLetters()
	}
	if hadNoLease(err) && late.Err() == nil {
		d.pause = pause{err: lease.ErrExpired, duration: w.r.o.RetryInitial}
		return outcomeNoLease
	}
	if atFault {
		err = Errorf(Halted, "%d events in a row were rejected and none accepted: the sink, not the data, is probably misconfigured: %w", w.rejections.InARow(), err)
	}
	if late.Err() != nil || errors.Is(err, ctx.Err()) {
		return outcomeInterrupted
	}
	class, retryAfter := ClassOf(err)
	w.r.metrics.retries.WithLabelValues(string(class)).Inc()
	switch {
	case class == Halted:
		d.pause = pause{err: err, duration: w.r.o.Probe}
		return outcomeHalts
	case class == Throttled:
		d.pause = pause{err: err, duration: max(w.retry.NextBackOff(), retryAfter)}
		return outcomeThrottled
	case progress: // the target is up
		d.pause = pause{err: err, duration: max(w.r.o.RetryInitial, retryAfter)}
		return outcomeSomeFailed
	default:
		d.isolation.failures++
		d.pause = pause{err: err, duration: max(w.retry.NextBackOff(), retryAfter)}
		return outcomeFailed
	}
}

// probe implements probing. It sends single events to a sink that rejected
// everything, until it accepts one: then the data is bad, not the sink, and delivery
// goes on. Events that the target rejects stay pending; events that cannot be sent
// are dead-lettered.
func (d *delivery) probe(ctx, late context.Context) outcome {
	// All of these may be bad, and the events after them good.
	if _, err := d.extend(ctx); err != nil {
		return d.end(ctx, late, fmt.Errorf("read the events after those that were rejected: %w", err))
	}
	candidates := d.b.firstOfEachKey()
	var answer error // the target's last; nil: nothing was sent
	for range min(poison.HaltAfter, len(candidates)) {
		if ctx.Err() != nil {
			return d.end(ctx, late, ctx.Err())
		}
		i := candidates[d.probed%len(candidates)]
		d.probed++
		err := d.sendOnce(late, []int{i})
		if each, ok := errors.AsType[EventErrors](err); ok && len(each) == 1 && !hadNoLease(err) {
			err = each[0]
		}
		if err == nil {
			d.acknowledge(i, time.Now())
			d.w.rejections.Trust()
			return d.end(ctx, late, nil)
		}
		if IsUnsent(err) {
			d.reject(i, err)
			continue
		}
		answer = err
		if class, _ := ClassOf(err); class != Rejected {
			break
		}
	}
	return d.end(ctx, late, answer)
}
