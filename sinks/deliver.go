package sinks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ndrbridge/internal/poison"
)

// The thresholds that tell an event at fault from a target that is down or
// misconfigured.
const (
	// maxIsolateInterval is the largest number of attempts between two passes that
	// bisect a batch. The interval grows while no event is delivered: the target is
	// then probably down.
	maxIsolateInterval = 60
	// downAfter is the number of events that must fail individually in one pass,
	// with none delivered, for the target to count as down.
	downAfter = 8
)

// deliver sends b until every event is acknowledged or dead-lettered, ctx is done,
// or the lag policy skips the batch. Completed events ahead of a failing one are
// committed before each retry. It returns an error only if committing failed.
func (w *worker) deliver(ctx, late context.Context, b *deliveryBatch) error {
	b.isolateAt = w.r.o.IsolateAfter
	w.rejections.Distrust()
	for w.waitWhilePaused(ctx) {
		if err := w.commit(ctx, b, false); err != nil {
			return err
		}
		pending := b.pending()
		if w.skipped {
			break
		}
		if len(pending) == 0 {
			w.recovered()
			return nil
		}
		b.awaitsMore = false
		var err error
		deliveredBefore := w.delivered
		isolating := b.failures >= b.isolateAt || b.poisoned || b.failures >= w.r.o.IsolateAfter && len(pending) == 1
		switch {
		case w.rejections.TargetAtFault():
			err = w.probe(ctx, late, b)
		case isolating:
			b.isolateAt = b.failures + min(max(b.failures, w.r.o.IsolateAfter), maxIsolateInterval)
			err = w.isolate(ctx, late, b)
		default:
			err = w.bisect(ctx, late, b, pending, nil)
		}
		if w.delivered > deliveredBefore {
			b.failures, b.isolateAt = 0, w.r.o.IsolateAfter
		}
		if err == nil {
			w.recovered()
			continue
		}
		if w.rejections.TargetAtFault() {
			b.undoDeadLetters()
			err = Errorf(Halted, "%d events in a row were rejected and none accepted: the sink, not the data, is probably misconfigured: %w", w.rejections.InARow(), err)
		}
		if late.Err() != nil || errors.Is(err, ctx.Err()) { // interrupted by shutdown
			break
		}
		class, retryAfter := ClassOf(err)
		w.r.metrics.retried(class)
		switch {
		case class == Halted:
			w.r.reopen()
			w.backOff(ctx, StateHalted, err, w.r.o.Probe, nil)
		case class == Throttled:
			w.backOff(ctx, StateRetrying, err, max(w.retry.NextBackOff(), retryAfter), nil)
		case w.delivered > deliveredBefore: // only some events fail: the target is up
			b.poisoned = b.poisoned || isolating
			w.backOff(ctx, StateRetrying, err, max(w.r.o.RetryInitial, retryAfter), nil)
		default:
			b.failures++
			w.backOff(ctx, StateRetrying, err, max(w.retry.NextBackOff(), retryAfter), b)
		}
	}
	return w.commit(ctx, b, true)
}

// attempt sends the events at indexes in one call and records the result of each
// event, if the sink reports it. It returns nil if the remaining events may be
// sent at once, otherwise the error that decides how to go on.
//
// Events that failed individually are recorded in pass, if it is not nil.
func (w *worker) attempt(ctx context.Context, b *deliveryBatch, indexes []int, pass *isolationPass) error {
	err := w.send(ctx, b, indexes)
	now := time.Now()
	if err == nil {
		for _, i := range indexes {
			w.acknowledge(b, i, now)
		}
		return nil
	}
	if each, ok := errors.AsType[EventErrors](err); ok && len(each) == len(indexes) {
		return w.applyResults(ctx, b, indexes, each, now, pass)
	}
	switch class, _ := ClassOf(err); {
	case class == Transient && ctx.Err() != nil: // interrupted: no event is at fault
	case class == Rejected && len(indexes) == 1:
		w.reject(b, indexes[0], err)
		if w.rejections.TargetAtFault() {
			return err
		}
		return nil
	case class == Transient && len(indexes) == 1:
		pass.addFailed(indexes[0], orderingKey(b.events[indexes[0]]))
		w.fail(b, indexes[0], err)
	case class == Transient && pass == nil:
		for _, i := range indexes {
			w.fail(b, i, err)
		}
	}
	return err
}

// applyResults records the result of each event at indexes: acknowledged events
// are done, rejected ones are dead-lettered. It returns nil if the remaining events
// may be sent at once, otherwise the most severe of their errors.
func (w *worker) applyResults(ctx context.Context, b *deliveryBatch, indexes []int, each EventErrors, now time.Time, pass *isolationPass) error {
	var transient, throttled, halted, rejected error
	var longest time.Duration
	progress := false
	for n, err := range each {
		i := indexes[n]
		if err == nil {
			w.acknowledge(b, i, now)
			progress = true
			continue
		}
		switch class, retryAfter := ClassOf(err); {
		case class == Rejected:
			w.reject(b, i, err)
			rejected = err
			progress = true
		case class == Halted:
			halted = firstError(halted, err)
		case class == Throttled:
			if throttled == nil || retryAfter > longest {
				throttled, longest = err, retryAfter
			}
		case !errors.Is(err, ErrNotTried) && ctx.Err() == nil:
			transient = firstError(transient, err)
			pass.addFailed(i, orderingKey(b.events[i]))
			w.fail(b, i, err)
		}
	}
	if progress {
		w.retry.Reset() // the next failure is that of another event
	}
	switch {
	case halted != nil:
		return halted
	case throttled != nil:
		return throttled
	case transient != nil:
		return transient
	case !progress:
		return ErrNotTried
	case w.rejections.TargetAtFault():
		return rejected
	}
	return nil
}

// firstError returns a, or b if a is nil.
func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// bisect sends the pending events at indexes. If one of them is rejected and the
// sink does not report which, it halves them until the event is found. If pass is
// not nil, it does the same for transient failures and leaves out blocked events.
// It returns when each event was tried, or when a failure concerns all of them.
func (w *worker) bisect(ctx, late context.Context, b *deliveryBatch, indexes []int, pass *isolationPass) error {
	indexes = b.sendable(indexes, pass)
	switch {
	case len(indexes) == 0:
		return nil
	case ctx.Err() != nil:
		return ctx.Err() // start nothing new
	}
	if size := b.fits(indexes, w.r.o.Batch); size < len(indexes) { // the batch was extended
		if pass != nil && w.targetDown(pass) {
			pass.block(b, indexes[size:])
			return w.bisect(ctx, late, b, indexes[:size], pass)
		}
		return w.bisectHalves(ctx, late, b, indexes, pass)
	}
	err := w.attempt(late, b, indexes, pass)
	if err == nil { // events that were not tried come next
		return w.bisect(ctx, late, b, indexes, pass)
	}
	class, _ := ClassOf(err)
	if class == Halted || class == Throttled || class == Transient && pass == nil {
		return err
	}
	if w.rejections.TargetAtFault() || pass != nil && w.targetDown(pass) {
		// The target is down. Events that the caller has yet to try must not overtake
		// these.
		pass.block(b, indexes)
		return err
	}
	left := b.sendable(indexes, pass)
	if len(left) < len(indexes) { // the results of some events are known
		return firstError(w.bisect(ctx, late, b, left, pass), err)
	}
	if len(left) == 1 {
		return err
	}
	return w.bisectHalves(ctx, late, b, left, pass)
}

// bisectHalves calls bisect for the first half of indexes, then for the second.
func (w *worker) bisectHalves(ctx, late context.Context, b *deliveryBatch, indexes []int, pass *isolationPass) error {
	middle := len(indexes) / 2
	err := w.bisect(ctx, late, b, indexes[:middle], pass)
	if class, _ := ClassOf(err); err != nil && (class != Transient || pass == nil) {
		return err
	}
	return firstError(w.bisect(ctx, late, b, indexes[middle:], pass), err)
}

// targetDown reports whether at least downAfter events failed individually in pass
// and none was delivered.
func (w *worker) targetDown(pass *isolationPass) bool {
	return len(pass.failed) >= downAfter && w.delivered == pass.deliveredBefore
}

// isolate makes one pass over a batch that keeps failing, extended by some of the
// events that follow it, to see which events fail individually while others are
// delivered. An event that is poison is dead-lettered.
func (w *worker) isolate(ctx, late context.Context, b *deliveryBatch) error {
	if err := w.extend(ctx, b); err != nil {
		return fmt.Errorf("read the events after a batch that keeps failing: %w", err)
	}
	pass := newIsolationPass(w.delivered)
	err := w.bisect(ctx, late, b, b.pending(), pass)
	if w.delivered == pass.deliveredBefore {
		if w.targetDown(pass) {
			b.poisoned = false // the target is down, whatever was seen before
		}
		return err
	}
	for _, i := range b.pending() {
		if !pass.failed[i] {
			continue
		}
		if b.soloFailures[i].Add(w.delivered) {
			b.giveUp(i, fmt.Errorf("given up after %d attempts of its own while other events were delivered: %w", poison.GiveUpAfter, err))
		}
	}
	return err
}

// maxExtendReads bounds the reads with which extend looks for an event that is not
// filtered.
const maxExtendReads = 100

// extend appends events to a batch that keeps failing, if it may grow.
func (w *worker) extend(ctx context.Context, b *deliveryBatch) error {
	if !b.mayGrow(w.r.o.Batch) {
		return nil
	}
	matchedBefore := b.matched()
	for range maxExtendReads {
		before := b.last()
		if err := w.queue.extend(ctx, b); err != nil {
			return err
		}
		if after := b.last(); before.Seq == after.Seq && before.Offset == after.Offset {
			// With a match, most events that follow are filtered and no reason to retry at
			// once.
			b.awaitsMore = b.poisoned && b.matched() == matchedBefore && w.r.o.Match == nil
			return nil
		}
		if b.matched() > matchedBefore {
			return nil
		}
	}
	return nil
}

// probe sends single events to a sink that rejected everything, until it accepts
// one: then the data is bad, not the sink, and delivery goes on. Events that the
// target rejects stay pending; events that cannot be sent are dead-lettered.
func (w *worker) probe(ctx, late context.Context, b *deliveryBatch) error {
	// All of these may be bad, and the events after them good.
	if err := w.extend(ctx, b); err != nil {
		return fmt.Errorf("read the events after those that were rejected: %w", err)
	}
	pending := b.pending()
	var candidates []int // the first of each ordering key
	keys := make(map[string]bool)
	for _, i := range pending {
		if key := orderingKey(b.events[i]); !keys[key] || key == "" {
			keys[key] = true
			candidates = append(candidates, i)
		}
	}
	var answer error // the target's last; nil: nothing was sent
	for range min(poison.HaltAfter, len(candidates)) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		i := candidates[b.probed%len(candidates)]
		b.probed++
		err := w.send(late, b, []int{i})
		if each, ok := errors.AsType[EventErrors](err); ok && len(each) == 1 {
			err = each[0]
		}
		if err == nil {
			w.acknowledge(b, i, time.Now())
			w.rejections.Trust()
			return nil
		}
		if IsUnsent(err) {
			w.reject(b, i, err)
			continue
		}
		answer = err
		if class, _ := ClassOf(err); class != Rejected {
			break
		}
	}
	return answer
}

// send sends the events at indexes in one call of Send.
func (w *worker) send(ctx context.Context, b *deliveryBatch, indexes []int) error {
	b.sends++
	return w.r.send(ctx, b.eventsAt(indexes), b.sends)
}

// acknowledge records that the target acknowledged an event at the time now.
func (w *worker) acknowledge(b *deliveryBatch, index int, now time.Time) {
	w.r.metrics.delivered.Inc()
	if !b.events[index].Redelivered { // the age of a redelivery is no measure of delivery
		w.r.metrics.delivery.Observe(now.Sub(b.events[index].RecordedTime).Seconds())
	}
	b.acknowledge(index)
	w.rejections.Accepted()
	w.delivered++
}

// reject dead-letters an event that will never be delivered. It counts as a
// rejection by the target unless the event was never sent, or is a requeued dead
// letter: that returns to the dead letters and proves nothing new about the target.
func (w *worker) reject(b *deliveryBatch, index int, err error) {
	b.deadLetter(index, err)
	if b.records[index].Seq != 0 && !IsUnsent(err) {
		w.rejections.Add()
	}
}

// fail counts a transient failure of an event and dead-letters the event if it has
// reached MaxAttempts.
func (w *worker) fail(b *deliveryBatch, index int, err error) {
	b.transientFailures[index]++
	if limit := w.r.o.MaxAttempts; limit > 0 && b.transientFailures[index] >= limit {
		b.deadLetter(index, fmt.Errorf("given up after %d attempts (max_attempts): %w", limit, err))
	}
}
