package sinks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// send implements sending and bisecting: it makes one call of Send.
func (d *delivery) send(ctx, late context.Context) outcome {
	indexes := d.take()
	switch {
	case indexes == nil:
		return d.end(ctx, late, nil)
	case ctx.Err() != nil:
		return d.end(ctx, late, ctx.Err()) // start nothing new
	}
	err := d.attempt(late, indexes)
	if err == nil {
		d.push(indexes) // events that were not tried come next
		return outcomeMore
	}
	if class, _ := ClassOf(err); class != Rejected || d.w.rejections.TargetAtFault() {
		return d.end(ctx, late, err)
	}
	d.pushHalves(indexes)
	return outcomeRejectedAsAWhole
}

// take removes from d.ranges the events to send in the next call. It leaves out those
// that are done or that the pass excludes, and returns nil if none is left.
func (d *delivery) take() []int {
	for len(d.ranges) > 0 {
		last := len(d.ranges) - 1
		indexes := d.sendable(d.ranges[last])
		d.ranges = d.ranges[:last]
		if len(indexes) == 0 {
			continue
		}
		size := d.b.fits(indexes, d.w.r.o.Batch)
		switch {
		case size == len(indexes):
			return indexes
		case d.targetDown(): // the batch was extended, here and below
			d.pass.block(d.b, indexes[size:])
			d.push(indexes[:size])
		default:
			d.pushHalves(indexes)
		}
	}
	return nil
}

func (d *delivery) push(indexes []int) { d.ranges = append(d.ranges, indexes) }

func (d *delivery) pushHalves(indexes []int) {
	middle := len(indexes) / 2
	d.ranges = append(d.ranges, indexes[middle:], indexes[:middle])
}

// attempt sends the events at indexes in one call and records the result of each
// event, if the sink reports it. It returns nil if the remaining events may be
// sent at once, otherwise the error that decides how to go on.
func (d *delivery) attempt(ctx context.Context, indexes []int) error {
	err := d.sendOnce(ctx, indexes)
	now := time.Now()
	if err == nil {
		for _, i := range indexes {
			d.acknowledge(i, now)
		}
		return nil
	}
	if each, ok := errors.AsType[EventErrors](err); ok && len(each) == len(indexes) {
		left := d.applyResults(ctx, indexes, each, hadNoLease(err), now)
		if hadNoLease(err) {
			return err
		}
		return left
	}
	switch class, _ := ClassOf(err); {
	case hadNoLease(err): // no event is at fault
	case class == Transient && ctx.Err() != nil: // interrupted: no event is at fault
	case class == Rejected && len(indexes) == 1:
		d.reject(indexes[0], err)
		if d.w.rejections.TargetAtFault() {
			return err
		}
		return nil
	case class == Transient && len(indexes) == 1:
		d.failAlone(indexes[0], err)
	case class == Transient && d.pass == nil:
		for _, i := range indexes {
			d.fail(i, err)
		}
	}
	return err
}

// applyResults records the result of each event at indexes: acknowledged events
// are done, rejected ones are dead-lettered. If the lease was over, the other failures do
// not count. It returns nil if the remaining events may be sent at once, otherwise the most
// severe of their errors.
func (d *delivery) applyResults(ctx context.Context, indexes []int, each EventErrors, noLease bool, now time.Time) error {
	var transient, throttled, halted, rejected error
	var longest time.Duration
	progress := false
	for n, err := range each {
		i := indexes[n]
		if err == nil {
			d.acknowledge(i, now)
			progress = true
			continue
		}
		switch class, retryAfter := ClassOf(err); {
		case class == Rejected:
			d.reject(i, err)
			rejected = err
			progress = true
		case noLease:
		case class == Halted:
			if halted == nil {
				halted = err
			}
		case class == Throttled:
			if throttled == nil || retryAfter > longest {
				throttled, longest = err, retryAfter
			}
		case !errors.Is(err, ErrNotTried) && ctx.Err() == nil:
			if transient == nil {
				transient = err
			}
			d.failAlone(i, err)
		}
	}
	if progress {
		d.w.retry.Reset() // the next failure is that of another event
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
	case d.w.rejections.TargetAtFault():
		return rejected
	}
	return nil
}

// sendOnce sends the events at indexes in one call of Send.
func (d *delivery) sendOnce(ctx context.Context, indexes []int) error {
	d.sends++
	return d.w.r.send(ctx, d.b.eventsAt(indexes), d.sends)
}

// acknowledge records that the target acknowledged an event at the time now.
func (d *delivery) acknowledge(index int, now time.Time) {
	m := d.w.r.metrics
	m.delivered.Inc()
	if e := &d.b.events[index]; !e.Redelivered { // the age of a redelivery is no measure of delivery
		m.delivery.Observe(now.Sub(e.RecordedTime).Seconds())
	}
	d.b.acknowledge(index)
	d.w.rejections.Accepted()
	d.w.delivered++
	d.w.r.setDelivered(now)
}

// reject dead-letters an event that will never be delivered. It counts as a
// rejection by the target unless the event was never sent, or is a requeued dead
// letter: that returns to the dead letters and proves nothing new about the target.
func (d *delivery) reject(index int, err error) {
	d.b.deadLetter(index, err)
	if d.b.entries[index].record.Seq != 0 && !IsUnsent(err) {
		d.w.rejections.Add()
	}
}

// fail counts a transient failure of an event and dead-letters the event if it has
// reached MaxAttempts.
func (d *delivery) fail(index int, err error) {
	failures := &d.b.entries[index].transientFailures
	*failures++
	if limit := d.w.r.o.MaxAttempts; limit > 0 && *failures >= limit {
		d.b.deadLetter(index, fmt.Errorf("given up after %d attempts (max_attempts): %w", limit, err))
	}
}

// failAlone is like fail, for an event that failed individually, which the pass records.
func (d *delivery) failAlone(index int, err error) {
	d.pass.addFailed(index, orderingKey(d.b.events[index]), err)
	d.fail(index, err)
}

// sendable removes from indexes the events that are done or that the pass excludes.
func (d *delivery) sendable(indexes []int) []int {
	return slices.DeleteFunc(indexes, func(i int) bool {
		return d.b.entries[i].done || d.pass.excludes(i, orderingKey(d.b.events[i]))
	})
}
