package sinks

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The numbers that decide when an event is taken for what keeps a sink from
// going on.
const (
	// Where nothing of a batch that is divided passes, the target is down, and it
	// is divided less and less often: so many attempts lie between at most.
	isolateRarely = 60
	// isolateLeast is how many events that failed by themselves, none of them
	// having passed, are enough to say that the target is down.
	isolateLeast = 8
	// giveUpAfter is how many attempts of its own an event gets, each with others
	// that passed beside it, before it counts as rejected.
	giveUpAfter = 20
	// rejectAll is how many rejections in a row, without one success, say that
	// the sink is misconfigured rather than the data bad.
	rejectAll = 20
)

// deliver sends the events of a batch until each is done and settled, ctx ends,
// or the lag policy skips it. What is done in front of events that keep failing is
// settled before these are tried again. The error is that of settling.
func (l *worker) deliver(ctx, late context.Context, b *deliveryBatch) error {
	b.isolateAt = l.r.o.IsolateAfter
	for l.waitWhilePaused(ctx) {
		if err := l.commit(ctx, b, false); err != nil {
			return err
		}
		pending := b.pending()
		if l.skipped {
			break
		}
		if len(pending) == 0 {
			l.resume()
			return nil
		}
		b.waits = false
		var err error
		elapsed := l.delivered
		isolating := b.failures >= b.isolateAt || b.poisoned || b.failures >= l.r.o.IsolateAfter && len(pending) == 1
		switch {
		case l.rejectsAll(b):
			err = l.probe(ctx, late, b)
		case isolating:
			b.isolateAt = b.failures + min(max(b.failures, l.r.o.IsolateAfter), isolateRarely)
			err = l.isolate(ctx, late, b)
		default:
			err = l.divide(ctx, late, b, pending, nil)
		}
		if l.delivered > elapsed {
			b.failures, b.isolateAt = 0, l.r.o.IsolateAfter
		}
		if err == nil {
			l.resume()
			continue
		}
		if l.rejectsAll(b) {
			b.undoDeadLetter()
			err = Errorf(Halted, "it rejected %d events in a row and took none, so that the sink is at fault rather than the events: %w", l.rejections, err)
		}
		if late.Err() != nil || errors.Is(err, ctx.Err()) { // it was cut short by a stop
			break
		}
		class, retryAfter := ClassOf(err)
		l.r.metrics.retried(class)
		switch {
		case class == Halted:
			l.r.reopen()
			l.pause(ctx, StateHalted, err, l.r.o.Probe, nil)
		case class == Throttled:
			l.pause(ctx, StateRetrying, err, max(l.retry.NextBackOff(), retryAfter), nil)
		case l.delivered > elapsed: // the target is well, but for some events
			b.poisoned = b.poisoned || isolating
			l.pause(ctx, StateRetrying, err, max(l.r.o.RetryInitial, retryAfter), nil)
		default:
			b.failures++
			l.pause(ctx, StateRetrying, err, max(l.retry.NextBackOff(), retryAfter), b)
		}
	}
	return l.commit(ctx, b, true)
}

// attempt sends events of a batch in one call, and takes the result of each that
// the sink knows. The error says how to go on with the others: nil where nothing
// hinders another attempt.
//
// What failed by itself is noted in held.
func (l *worker) attempt(ctx context.Context, b *deliveryBatch, indexes []int, held *failures) error {
	err := l.send(ctx, b, indexes)
	now := time.Now()
	if err == nil {
		for _, i := range indexes {
			l.acknowledge(b, i, now)
		}
		return nil
	}
	if each, ok := errors.AsType[EventErrors](err); ok && len(each) == len(indexes) {
		return l.sort(ctx, b, indexes, each, now, held)
	}
	switch class, _ := ClassOf(err); {
	case class == Transient && ctx.Err() != nil: // cut short, of which no event is guilty
	case class == Rejected && len(indexes) == 1:
		l.reject(b, indexes[0], err)
		if l.rejectsAll(b) {
			return err
		}
		return nil
	case class == Transient && len(indexes) == 1:
		held.add(indexes[0], orderKey(b.events[indexes[0]]))
		l.fail(b, indexes[0], err)
	case class == Transient && held == nil:
		for _, i := range indexes {
			l.fail(b, i, err)
		}
	}
	return err
}

// sort takes the result of each event of an attempt: what is acknowledged is done,
// what is rejected is buried. It returns the error that says how to go on with
// the others: the most severe of theirs, or nil where nothing hinders another
// attempt.
func (l *worker) sort(ctx context.Context, b *deliveryBatch, indexes []int, each EventErrors, now time.Time, held *failures) error {
	var transient, throttled, halted, rejected error
	var longest time.Duration
	progress := false
	for n, err := range each {
		i := indexes[n]
		if err == nil {
			l.acknowledge(b, i, now)
			progress = true
			continue
		}
		switch class, wait := ClassOf(err); {
		case class == Rejected:
			l.reject(b, i, err)
			rejected = err
			progress = true
		case class == Halted:
			halted = first(halted, err)
		case class == Throttled:
			if throttled == nil || wait > longest {
				throttled, longest = err, wait
			}
		case !errors.Is(err, ErrNotTried) && ctx.Err() == nil:
			transient = first(transient, err)
			held.add(i, orderKey(b.events[i]))
			l.fail(b, i, err)
		}
	}
	if progress {
		l.retry.Reset() // what failed is not what failed before
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
	case l.rejectsAll(b):
		return rejected
	}
	return nil
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// divide sends events of a batch, and where one of them is rejected without it
// being known which, halves of them, until it is. Where held is not nil, it does
// so for what fails transiently, too; what comes behind an event that failed by
// itself, under its key, is not tried. It returns once each event was tried, or
// something concerns them all.
func (l *worker) divide(ctx, late context.Context, b *deliveryBatch, indexes []int, held *failures) error {
	indexes = b.left(indexes, held)
	switch {
	case len(indexes) == 0:
		return nil
	case ctx.Err() != nil:
		return ctx.Err() // nothing is begun any more
	}
	if size := b.fits(indexes, l.r.o.Batch); size < len(indexes) { // it was extended
		if held != nil && l.down(held) {
			held.hold(b, indexes[size:])
			return l.divide(ctx, late, b, indexes[:size], held)
		}
		return l.divideBoth(ctx, late, b, indexes, held)
	}
	err := l.attempt(late, b, indexes, held)
	if err == nil { // and some of it may not have been tried, which goes on first
		return l.divide(ctx, late, b, indexes, held)
	}
	class, _ := ClassOf(err)
	if class == Halted || class == Throttled || class == Transient && held == nil {
		return err
	}
	if l.rejectsAll(b) || held != nil && l.down(held) {
		// Nothing passes: the target is down. What is left of these must not be
		// passed by what the caller tries yet.
		held.hold(b, indexes)
		return err
	}
	left := b.left(indexes, held)
	if len(left) < len(indexes) { // some are told from the others already
		return first(l.divide(ctx, late, b, left, held), err)
	}
	if len(left) == 1 {
		return err
	}
	return l.divideBoth(ctx, late, b, left, held)
}

// divideBoth divides the one half of some events, then the other.
func (l *worker) divideBoth(ctx, late context.Context, b *deliveryBatch, indexes []int, held *failures) error {
	middle := len(indexes) / 2
	err := l.divide(ctx, late, b, indexes[:middle], held)
	if class, _ := ClassOf(err); err != nil && (class != Transient || held == nil) {
		return err
	}
	return first(l.divide(ctx, late, b, indexes[middle:], held), err)
}

// down reports whether enough events have failed by themselves, and none has passed
// meanwhile, to say that the target is down.
func (l *worker) down(held *failures) bool {
	return len(held.indexes) >= isolateLeast && l.delivered == held.delivered
}

// isolate makes one attempt of everything in a batch that keeps failing, and of
// some events behind it, so that it is seen whether others pass. An event that
// failed by itself while others passed often enough is buried.
func (l *worker) isolate(ctx, late context.Context, b *deliveryBatch) error {
	if err := l.extend(ctx, b); err != nil {
		return fmt.Errorf("read events behind a batch that keeps failing: %w", err)
	}
	held := newFailures(l.delivered)
	err := l.divide(ctx, late, b, b.pending(), held)
	if l.delivered == held.delivered {
		if l.down(held) {
			b.poisoned = false // or not by now: the target is down
		}
		return err
	}
	for _, i := range b.pending() {
		if !held.indexes[i] {
			continue
		}
		if b.alone[i]++; b.alone[i] >= giveUpAfter {
			b.giveUp(i, fmt.Errorf("given up after %d attempts of its own, while others were taken: %w", giveUpAfter, err))
		}
	}
	return err
}

// extendReads is how often a batch that is extended is read on in search of an
// event that the sink wants.
const extendReads = 100

// extend adds some events to a batch that keeps failing, where it has space.
func (l *worker) extend(ctx context.Context, b *deliveryBatch) error {
	if !b.space(l.r.o.Batch) {
		return nil
	}
	wanted := b.matched()
	for range extendReads {
		before := b.last()
		if err := l.queue.extend(ctx, b); err != nil {
			return err
		}
		if after := b.last(); before.Seq == after.Seq && before.Offset == after.Offset {
			// With a match, what comes behind is mostly not wanted, and no reason to try
			// again at once.
			b.waits = b.poisoned && b.matched() == wanted && l.r.o.Match == nil
			return nil
		}
		if b.matched() > wanted {
			return nil
		}
	}
	return nil
}

// probe tries some events of a sink that rejected everything, one after the
// other, until it takes one: then it is the data that is bad, and delivery goes
// on. What it rejects stays; what cannot be sent becomes a dead letter.
func (l *worker) probe(ctx, late context.Context, b *deliveryBatch) error {
	// It may be that all of these are bad, and those behind them are not.
	if err := l.extend(ctx, b); err != nil {
		return fmt.Errorf("read events behind those that were rejected: %w", err)
	}
	pending := b.pending()
	var candidates []int // the first of each key
	keys := make(map[string]bool)
	for _, i := range pending {
		if key := orderKey(b.events[i]); !keys[key] || key == "" {
			keys[key] = true
			candidates = append(candidates, i)
		}
	}
	var answer error // the target's last; nil: it was not asked
	for range min(rejectAll, len(candidates)) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		i := candidates[b.probed%len(candidates)]
		b.probed++
		err := l.send(late, b, []int{i})
		if each, ok := errors.AsType[EventErrors](err); ok && len(each) == 1 {
			err = each[0]
		}
		if err == nil {
			l.acknowledge(b, i, time.Now())
			b.mixed = true
			return nil
		}
		if IsUnsent(err) {
			l.reject(b, i, err)
			continue
		}
		answer = err
		if class, _ := ClassOf(err); class != Rejected {
			break
		}
	}
	return answer
}

// send sends events of a batch in one call.
func (l *worker) send(ctx context.Context, b *deliveryBatch, indexes []int) error {
	b.sends++
	return l.r.send(ctx, b.eventsAt(indexes), b.sends)
}

func (l *worker) acknowledge(b *deliveryBatch, index int, now time.Time) {
	l.r.metrics.delivered.Inc()
	if !b.events[index].Redelivered { // how old those are says nothing of delivery
		l.r.metrics.delivery.Observe(now.Sub(b.events[index].RecordedTime).Seconds())
	}
	b.take(index)
	l.rejections = 0
	l.delivered++
}

// reject makes a dead letter of an event that will never be delivered. One that was
// a dead letter before goes back to where it was and says nothing new about the
// target, and one that was never sent says nothing about it at all.
func (l *worker) reject(b *deliveryBatch, index int, err error) {
	b.deadLetter(index, err)
	if b.records[index].Seq != 0 && !IsUnsent(err) {
		l.rejections++
	}
}

// rejectsAll reports whether so much was rejected that no data explains it.
func (l *worker) rejectsAll(b *deliveryBatch) bool { return l.rejections >= rejectAll && !b.mixed }

// fail counts a transient failure of an event, and buries it where it may have
// no more.
func (l *worker) fail(b *deliveryBatch, index int, err error) {
	b.attempts[index]++
	if limit := l.r.o.MaxAttempts; limit > 0 && b.attempts[index] >= limit {
		b.deadLetter(index, fmt.Errorf("given up after %d attempts (max_attempts): %w", limit, err))
	}
}
